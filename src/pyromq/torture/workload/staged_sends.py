"""Staged batches, written as Spark's sink writes them: parts in attempts, published together.

A batch that is not known to be published is written again, under its number and in new attempts; the rows of
one that was given up on purpose must never be seen.
"""

import asyncio
from dataclasses import dataclass, field
from functools import partial

from pyromq.client.aio.runner import Runner
from pyromq.client.client_session import new_session
from pyromq.client.name_servers import name_server_addresses
from pyromq.client.plans import staged_plans
from pyromq.client.plans.staged_plans import Brokers, StagedPart, Writing
from pyromq.errors import PyroError
from pyromq.torture.workload.arrangement import STAGED
from pyromq.torture.workload.scribe import MessageDraft, Scribe, told
from pyromq.torture.workload.workload_plan import WorkloadKind
from pyromq.wire import properties as names
from pyromq.wire.batch import BatchUnit, encode_batch

_QUERY = "torture"
_PARTS = 2
_ABORTED = 0.25
_TIMEOUT_MS = 6_000
_AGAIN_S = 0.5


@dataclass(slots=True)
class Written:
    """A batch, and its rows by part."""

    name: str
    batch: int
    parts: list[list[MessageDraft]] = field(default_factory=list)


class BatchWriter:
    """A client that writes one batch after the other."""

    name = "stager"

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe
        #: Spark's checkpoint: the next batch, and the one that is not known to be published. It outlives the
        #: client.
        self._next = 0
        self._open: Written | None = None
        self._attempts = 0

    async def main(self) -> None:
        """Write batches until the load ends, and the last one to its end."""
        scribe = self._scribe
        addresses = name_server_addresses(scribe.stage.namesrv_address, None)
        runner = Runner("staged sends", partial(new_session, "", addresses, scribe.settings(self.name)))
        await runner.start()
        try:
            brokers = Brokers(runner.session)
            while await scribe.pause(WorkloadKind.STAGED) or self._open is not None:
                await self._step(runner, brokers)
                if scribe.is_over:
                    break
                if self._open is not None:
                    # A broker that refuses at once is not asked all the time.
                    await asyncio.sleep(_AGAIN_S)
        finally:
            await runner.close()
        await scribe.wait_for_end()

    async def _step(self, runner: Runner, brokers: Brokers) -> None:
        scribe, history = self._scribe, self._scribe.history
        try:
            if self._open is None and scribe.chance.random() < _ABORTED:
                await self._give_up(runner, brokers)
            self._open = self._open or self._new_batch("")
            scribe.busy[self.name] = None
            parts = await self._stage(runner, brokers, self._open)
            history.note("publish", self.name, name=self._open.name)
            await runner.run(staged_plans.publish(brokers, parts, _TIMEOUT_MS))
        except PyroError as error:
            history.note("stage_failed", self.name, error=told(error))
            return
        history.note("published", self.name, name=self._open.name)
        self._open, self._next = None, self._next + 1
        scribe.busy.pop(self.name, None)

    async def _give_up(self, runner: Runner, brokers: Brokers) -> None:
        written = self._new_batch("-aborted")
        parts = await self._stage(runner, brokers, written)
        await runner.run(staged_plans.abort(brokers, parts, _TIMEOUT_MS))
        self._scribe.history.note("aborted", self.name, name=written.name)

    def _new_batch(self, suffix: str) -> Written:
        scribe = self._scribe
        written = Written(f"{_QUERY}-{self._next}{suffix}", self._next)
        for part in range(_PARTS):
            rows = [scribe.draft(WorkloadKind.STAGED, STAGED) for _ in range(scribe.chance.randint(1, 4))]
            written.parts.append(rows)
            for row in rows:
                row.fields |= {"batch_name": written.name, "part": part}
                scribe.note_send(self.name, row)
        numbers = [row.number for rows in written.parts for row in rows]
        if suffix:
            written.name += f"-{numbers[0]}"
        scribe.history.note("batch", self.name, name=written.name, numbers=[*numbers])
        return written

    async def _stage(self, runner: Runner, brokers: Brokers, written: Written) -> list[StagedPart]:
        parts: list[StagedPart] = []
        for part, rows in enumerate(written.parts):
            self._attempts += 1
            writing = Writing(_QUERY, written.batch, part, f"attempt-{self._attempts}")
            deadline = brokers.session.deadline(None, _TIMEOUT_MS)
            queues = await runner.run(staged_plans.queues_of(brokers, writing, STAGED, deadline))
            for at, row in enumerate(rows):
                if queues:
                    queue = queues[(part + at) % len(queues)]
                    unit = encode_batch([_unit(row)])
                    await runner.run(staged_plans.stage(brokers, writing, queue, unit, 1, deadline))
            parts.append(writing.finished())
        return parts


def _unit(row: MessageDraft) -> BatchUnit:
    message = row.message
    marks = {names.TAGS: message.tags or "", names.UNIQ_KEY: f"7F000002{row.number:024X}"}
    return BatchUnit(0, message.body, names.encode(message.properties | marks))
