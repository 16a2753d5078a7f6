"""Decided batches on their way out: a task for each, which nobody who waits for it owns."""

import asyncio
import logging

from pyromq.broker.kinds.staging.batches import StagedBatches
from pyromq.broker.kinds.staging.ledger import StagedBatch
from pyromq.broker.kinds.staging.ops import Out, Published
from pyromq.broker.kinds.staging.publishing import Publisher
from pyromq.codes import ResponseCode
from pyromq.errors import CorruptRecord, Refused, ServerFailed, ServiceNotAvailable

log = logging.getLogger(__name__)


class Departures:
    """Publishes decided batches, a chunk in each turn of the loop."""

    def __init__(self, batches: StagedBatches, publisher: Publisher) -> None:
        self._batches = batches
        self._publisher = publisher
        self._tasks: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._is_closing = False

    def resume(self) -> None:
        """Go on with all that is decided and not out."""
        for name, _, batch in self._batches.ledger.batches():
            if batch.is_leaving:
                self._begin(name, batch)

    async def wait(self, name: str, number: int, wait_s: float) -> None:
        """Return when a decided batch is out, or after a while; raise Refused if it cannot be let out now."""
        batch = self._batches.ledger.batch(name, number)
        if batch is None or batch.is_out:
            return
        done, _ = await asyncio.wait({self._begin(name, batch)}, timeout=wait_s)
        for task in done:
            error = None if task.cancelled() else task.exception()
            if isinstance(error, Refused):
                raise error
            if error is not None:
                raise ServerFailed(ResponseCode.SYSTEM_ERROR, str(error)) from error

    async def close(self) -> None:
        """Stop where it is."""
        self._is_closing = True
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _begin(self, name: str, batch: StagedBatch) -> "asyncio.Task[None]":
        if self._is_closing:
            raise ServiceNotAvailable(
                ResponseCode.SERVICE_NOT_AVAILABLE, "the broker stops; ask again when it is back"
            )
        key = (name, batch.number)
        task = self._tasks.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(
                self._publish(name, batch), name=f"publish batch {batch.number} of {name}"
            )
            self._tasks[key] = task
            task.add_done_callback(lambda task: self._ended(key, task))
        return task

    def _ended(self, key: tuple[str, int], task: "asyncio.Task[None]") -> None:
        del self._tasks[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            name, number = key
            log.error(
                "batch %d of query %s is decided and not out, it is tried again: %s", number, name, error
            )

    async def _publish(self, name: str, batch: StagedBatch) -> None:
        batches, decision = self._batches, batch.decision or ()
        missing = batches.missing(batch, decision)
        if missing:
            raise CorruptRecord(f"of what was decided, the log does not have {missing} any more")
        for chunk in tuple(batch.decided_chunks()):
            while chunk.out_count < chunk.message_count:
                self._publisher.publish_some(chunk)
                # Others are answered in between.
                await asyncio.sleep(0)
        is_home = batches.ledger.queries[name].home == batches.broker_name
        is_all_here = all(part.chunks.keys() <= {batches.broker_name} for part in decision)
        is_all_of_it = is_all_here or not is_home
        batches.note((Published if is_all_of_it else Out)(query=name, batch=batch.number))
