"""The blocking client of staged sends; Spark's executors and driver use it.

with StagedSends("127.0.0.1:9876") as sends:
    writer = sends.writer(query="3f2a", batch=7, part=0)
    queues = writer.queues("orders")
    writer.stage(queues[0], encode_batch(units), len(units))
    sends.publish([writer.finish()])
"""

from collections.abc import Sequence
from functools import partial
from uuid import uuid4

from pyromq.client.client_session import new_session
from pyromq.client.name_servers import name_server_addresses
from pyromq.client.plans import staged_plans
from pyromq.client.plans.staged_plans import TIMEOUT_MS, Brokers, StagedPart, Writing
from pyromq.client.sync.blocking_face import BlockingFace
from pyromq.client.sync.runner import Runner
from pyromq.config.settings import ClientSettings
from pyromq.model import MessageQueue
from pyromq.wire.headers.staging_headers import BatchState

__all__ = ["StagedPart", "StagedSends", "StagedWriter"]


class StagedSends(BlockingFace):
    """Writes and publishes batches; one for a process is enough, for all threads and all queries."""

    def __init__(self, name_server: str | None = None, settings: ClientSettings | None = None) -> None:
        addresses = name_server_addresses(name_server, settings)
        self._set_runner("staged sends", partial(new_session, "", addresses, settings or ClientSettings()))
        self._known: Brokers | None = None

    def writer(
        self, *, query: str, batch: int, part: int, attempt: int = 0, timeout_ms: int = TIMEOUT_MS
    ) -> "StagedWriter":
        """Return the writer of one attempt at a part of a batch; no broker is asked yet.

        Two attempts are never taken for one, even if their numbers are the same: whoever starts anew after a
        crash may count from 0 again. `timeout_ms` is for each call; a broker may be restarted meanwhile.
        """
        writing = Writing(query, batch, part, f"{attempt}-{uuid4().hex[:16]}")
        return StagedWriter(self, writing, timeout_ms)

    def publish(self, parts: Sequence[StagedPart], *, timeout_ms: int | None = None) -> None:
        """Publish the batch that these parts are; when this returns, all of it can be consumed, and is safe.

        It may be repeated, by another process too: what is published is not published again. If the batch
        was decided with other attempts, those hold. Raises IllegalOperation when chunks are missing,
        RequestTimeout or another NetworkError when a broker does not answer, or gets no further, for
        `timeout_ms` (30,000).
        """
        if parts:
            self.runner.run(staged_plans.publish(self.brokers, parts, timeout_ms))

    def abort(self, parts: Sequence[StagedPart], *, timeout_ms: int | None = None) -> None:
        """Let staged parts go; without effect when their batch is decided or published already."""
        if parts:
            self.runner.run(staged_plans.abort(self.brokers, parts, timeout_ms))

    @property
    def runner(self) -> Runner:
        """The runner that carries plans out."""
        return self._runner

    @property
    def brokers(self) -> Brokers:
        """The brokers that this process knows."""
        session = self._runner.session
        known = self._known
        if known is None or known.session is not session:
            # The first use, or the first in a child of a fork.
            known = self._known = Brokers(session)
        return known


class StagedWriter:
    """Stages one attempt at a part; chunks to one broker are published in the order they are staged in."""

    def __init__(self, sends: StagedSends, writing: Writing, timeout_ms: int) -> None:
        self._sends = sends
        self._writing = writing
        self._timeout_ms = timeout_ms

    def open(self, topics: Sequence[str]) -> None:
        """Join the batch with these topics; `queues` does it for a topic that is not among them.

        Raises StagedSendsUnsupported when the brokers are not PyroMQ's.
        """
        brokers = self._sends.brokers
        deadline = brokers.session.deadline(self._timeout_ms, TIMEOUT_MS)
        self._sends.runner.run(staged_plans.open_batch(brokers, self._writing, topics, deadline))

    @property
    def is_needed(self) -> bool:
        """Whether the batch still takes chunks; one that is decided or published stages nothing more.

        Known after `open`. Staging is without effect then, and the part is published all the same.
        """
        return self._writing.state is BatchState.OPEN

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that the batch uses: the same, in the same order, for all of its
        parts.

        Empty when the batch is decided or published, and nothing is to be staged.
        """
        brokers = self._sends.brokers
        deadline = brokers.session.deadline(self._timeout_ms, TIMEOUT_MS)
        return self._sends.runner.run(staged_plans.queues_of(brokers, self._writing, topic, deadline))

    def stage(self, queue: MessageQueue, messages: bytes, message_count: int) -> None:
        """Stage a chunk for a queue: up to 65,536 messages, encoded as `pyromq.wire.batch` does, about 1 MiB.

        Raises MessageIllegal when the chunk is nonsense, IllegalOperation when the batch was decided,
        aborted or forgotten meanwhile, RequestTimeout or another NetworkError when the broker does not
        answer in time.
        """
        brokers = self._sends.brokers
        deadline = brokers.session.deadline(self._timeout_ms, TIMEOUT_MS)
        plan = staged_plans.stage(brokers, self._writing, queue, messages, message_count, deadline)
        self._sends.runner.run(plan)

    def finish(self) -> StagedPart:
        """Return what `publish` and `abort` must be given for this part; joins the batch if nothing did."""
        if not self._writing.home:
            self.open(())
        return self._writing.finished()
