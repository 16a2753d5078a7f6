"""The workload: clients of every kind that a plan names, kept alive until the run is over."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from pyromq.client.aio.admin import Admin
from pyromq.errors import PyroError
from pyromq.torture.history import History
from pyromq.torture.promise_model import Model
from pyromq.torture.stage import Stage
from pyromq.torture.workload.arrangement import (
    ANSWERERS,
    CHOSEN,
    FAILERS,
    FAILING,
    OPEN_TOPIC,
    ORDERED,
    ORDERLY,
    PLAIN,
    POPPED,
    POPPERS,
    PULLERS,
    QUEUE_COUNT,
    READERS,
    REQUESTS,
    TAGGED,
)
from pyromq.torture.workload.correspondence import Answerer, Correspondent
from pyromq.torture.workload.failing_reader import FailingReader, Replayer
from pyromq.torture.workload.large_sends import LargeSends
from pyromq.torture.workload.offset_keeper import OffsetKeeper, Surveyor
from pyromq.torture.workload.passing_topics import PassingTopics
from pyromq.torture.workload.plain_sends import OrderedSends, PlainSends
from pyromq.torture.workload.pop_readers import Picker, Popper
from pyromq.torture.workload.readers import OrderlyReader, PushReader, SqlReader, TagReader
from pyromq.torture.workload.readout import read_out
from pyromq.torture.workload.scribe import Scribe, told
from pyromq.torture.workload.staged_sends import BatchWriter
from pyromq.torture.workload.stranger import Stranger
from pyromq.torture.workload.timed_sends import TimedSends
from pyromq.torture.workload.transaction_sends import Transactions
from pyromq.torture.workload.workload_plan import WorkloadKind, WorkloadPlan
from pyromq.wire.receipt_handle import pop_retry_topic

#: Seconds until a client that ended is started again, until a step that failed is tried again, and that
#: brokers have to take what the run begins with.
_AGAIN_S = 1.0
_PREPARE_S = 60.0
#: Seconds after which it is no excuse any more that a name server does not know a queue.
_PATIENCE_S = 45.0
#: Seconds without a delivery after which what may be lost is taken for lost.
_HOPELESS_S = 45.0


class WorkloadClient(Protocol):
    """A program of the workload."""

    name: str

    async def main(self) -> None:
        """Run until the run is over."""
        ...


class MixedWorkload:
    """A mixture of kinds on a stage; everything that happens is in the history."""

    def __init__(self, stage: Stage, history: History, plan: WorkloadPlan) -> None:
        self.stage = stage
        self.history = history
        self.plan = plan
        self._scribe = Scribe(stage, history, plan)
        self._clients: list[WorkloadClient] = []
        self._keepers: list[asyncio.Task[None]] = []
        #: Topics that are created, those that brokers make of themselves, and the groups that read.
        self.topics: list[str] = []
        self.own_topics: list[str] = []
        self.groups: list[str] = []
        self._passing: PassingTopics | None = None
        self._settled_s = 0.0

    async def prepare(self) -> None:
        """Create the topics; nothing is sent yet. Raises PyroError when brokers do not take them in time."""
        plan = self.plan
        self.history.note("plan", "workload", kinds={str(kind): plan.pauses_s[kind] for kind in plan.kinds})
        self._cast()
        await self._until_done("founder", self._create_topics, _PREPARE_S)

    async def run(self, seconds: float) -> None:
        """Start the clients, unless they run, and let the load go on that long, or until it is stopped."""
        if not self._keepers:
            self._keepers = [asyncio.create_task(self._keep(client)) for client in self._clients]
        until_s = self.stage.now_s() + seconds
        while (left_s := until_s - self.stage.now_s()) > 0 and await self._scribe.wait(min(left_s, _AGAIN_S)):
            self._see_mistakes()

    def stop(self) -> None:
        """End the load; clients go on reading and answering."""
        if not self._scribe.is_stopped:
            self._scribe.is_stopped = True
            self.history.note("stopped", "workload")

    async def settle(self, seconds_max: float) -> None:
        """Stop the load, wait until readers have all they must, and read everything out.

        To be called when no fault is left. Brokers that cannot be read in that time are noted, and judged.
        """
        self.stop()
        began_s = self.stage.now_s()
        self.history.note("settle", "workload")
        await self._rest(began_s + seconds_max)
        self._settled_s = self.stage.now_s()
        self.history.note("settled", "workload", waited_s=self._settled_s - began_s)
        try:
            await self._until_done("auditor", self._read_out, seconds_max)
        except PyroError as error:
            self.history.note("unreadable", "workload", error=told(error))
        else:
            self.history.note("read_out", "workload")
        await self.close()

    async def _rest(self, until_s: float) -> None:
        """Wait until everybody has what they must have, or nobody gets anything any more that may be lost."""
        model = Model(self.stage.promises)
        moved_s, left = self.stage.now_s(), -1
        while (now_s := self.stage.now_s()) < until_s:
            model.see_all(self.history.events)
            missing = [sent for _, sent in model.missing()]
            if len(missing) + len(model.undecided()) != left:
                moved_s, left = now_s, len(missing) + len(model.undecided())
            is_quiet = not self._scribe.busy and now_s >= model.quiet_from_s + _AGAIN_S
            if is_quiet and not left:
                return
            is_hopeless = all(model.may_be_lost(model.said_at_s(sent)) for sent in missing)
            if is_quiet and is_hopeless and now_s > moved_s + _HOPELESS_S:
                return
            await asyncio.sleep(_AGAIN_S)

    async def _read_out(self) -> None:
        kept = [] if self._passing is None else self._passing.kept
        is_patient = self.stage.now_s() < self._settled_s + _PATIENCE_S
        more = [*self.own_topics, *kept]
        await read_out(self._scribe, self.topics, more, self.groups, is_patient=is_patient)

    async def close(self) -> None:
        """End the clients."""
        self._scribe.is_stopped = self._scribe.is_over = True
        if self._keepers:
            await asyncio.wait(self._keepers)
        self._see_mistakes()

    def _see_mistakes(self) -> None:
        """Raise what ended a client that was nobody's fault but the workload's own."""
        for keeper in self._keepers:
            if keeper.done():
                keeper.result()

    # The cast -----------------------------------------------------------------------------------------

    def _cast(self) -> None:
        scribe, plan = self._scribe, self.plan
        self._clients.append(PlainSends(scribe))
        reader = PushReader(scribe)
        self._take_on(reader, READERS, reader.topics)
        if plan.has(WorkloadKind.ORDERED):
            self._clients.append(OrderedSends(scribe))
            self._take_on(OrderlyReader(scribe), ORDERLY, [ORDERED])
        if plan.has(WorkloadKind.FILTERED):
            self._take_on(TagReader(scribe), TAGGED, [PLAIN])
            self._take_on(SqlReader(scribe), CHOSEN, [PLAIN])
        if plan.has(WorkloadKind.FAILING):
            self._take_on(FailingReader(scribe), FAILERS, [FAILING])
            self._clients.append(Replayer(scribe))
            self.own_topics += [f"%RETRY%{FAILERS}", f"%DLQ%{FAILERS}"]
        if plan.has(WorkloadKind.POPPED):
            self._take_on(Popper(scribe), POPPERS, [POPPED])
            self._clients.append(Picker(scribe))
            self.own_topics.append(pop_retry_topic(POPPERS, POPPED))
        if plan.has(WorkloadKind.REQUEST):
            self._clients.append(Correspondent(scribe))
            self._take_on(Answerer(scribe), ANSWERERS, [REQUESTS])
        if plan.has(WorkloadKind.OFFSETS):
            self._take_on(OffsetKeeper(scribe), PULLERS, [PLAIN])
        self._cast_senders()

    def _cast_senders(self) -> None:
        scribe, plan = self._scribe, self.plan
        senders: dict[WorkloadKind, Callable[[Scribe], WorkloadClient]] = {
            WorkloadKind.TIMED: TimedSends,
            WorkloadKind.TRANSACTION: Transactions,
            WorkloadKind.STAGED: BatchWriter,
            WorkloadKind.LARGE: LargeSends,
        }
        self._clients += [new(scribe) for kind, new in senders.items() if plan.has(kind)]
        if plan.has(WorkloadKind.TOPICS):
            self._passing = PassingTopics(scribe)
            self._clients.append(self._passing)
        if plan.has(WorkloadKind.ENDS):
            self._clients.append(Surveyor(scribe, list(self.topics), list(self.groups)))
        if plan.has(WorkloadKind.STRANGERS) and self.stage.promises.has_access_control:
            self.topics.append(OPEN_TOPIC)
            self._clients.append(Stranger(scribe))

    def _take_on(self, client: WorkloadClient, group: str, topics: list[str]) -> None:
        self._clients.append(client)
        self.groups.append(group)
        self.topics += [topic for topic in topics if topic not in self.topics]

    async def _create_topics(self) -> None:
        wanted = self.stage.promises.groups * QUEUE_COUNT
        settings = self._scribe.settings("founder")
        async with Admin(self.stage.namesrv_address, settings) as admin:
            for topic in self.topics:
                if topic in self._scribe.queues:
                    continue
                await admin.create_topic(topic, QUEUE_COUNT)
                queues = sorted((await admin.topic_status(topic)).keys())
                if len(queues) < wanted:
                    raise PyroError(f"topic {topic} has {len(queues)} queues; {wanted} are wanted")
                self._scribe.queues[topic] = queues

    # Keeping on ---------------------------------------------------------------------------------------

    async def _keep(self, client: WorkloadClient) -> None:
        """Start a client, and start it again when it ended before the run is over: somebody killed it."""
        while not self._scribe.is_over:
            process = self.stage.start_client(client.name, client.main)
            try:
                await process.wait()
            except PyroError as error:
                self.history.note("client_failed", client.name, error=told(error))
            if not self._scribe.is_over:
                self.history.note("client_ended", client.name)
                await asyncio.sleep(_AGAIN_S)

    async def _until_done(
        self, name: str, step: Callable[[], Coroutine[Any, Any, None]], seconds_max: float
    ) -> None:
        """Have a client do something, again while brokers refuse it or are away, or when it was killed."""
        until_s = self.stage.now_s() + seconds_max
        is_done = False

        async def main() -> None:
            nonlocal is_done
            await step()
            is_done = True

        while not is_done:
            try:
                await self.stage.start_client(name, main).wait()
            except PyroError:
                if self.stage.now_s() + _AGAIN_S >= until_s:
                    raise
            if not is_done:
                await asyncio.sleep(_AGAIN_S)
