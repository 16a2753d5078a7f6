"""Held pulls, and pulls in the shapes of real clients: the kernel and Python answer the same bytes.

Each test runs on a broker with the kernel and on one without, and compares what both answered. `long_way`
counts the pulls that came to Python: where the kernel has learnt a kind of pull it must be none.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kinds_stage import settle
from reign_stage import reign_of
from slave_stage import running_pair

from pyromq.broker.broker import Broker
from pyromq.broker.delivery.arrivals import Arrivals
from pyromq.codes import PullFlag, RequestCode, ResponseCode
from pyromq.config.load import build
from pyromq.config.settings import BrokerProcess
from pyromq.kernel import WHY_PURE
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import heartbeat_body, held_pull_fields, pull_fields, send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.command import Command

pytestmark = pytest.mark.skipif(WHY_PURE is not None, reason=f"there is nothing to compare: {WHY_PURE}")

PULL = RequestCode.PULL_MESSAGE
COMMITTING = int(PullFlag.COMMIT_OFFSET | PullFlag.SUBSCRIPTION | PullFlag.SUSPEND)
BY_HEARTBEAT = int(PullFlag.SUSPEND)


def count_pulls(broker: Broker) -> list[str]:
    """Return a list that gets the group of each pull that takes the long way from now on."""
    pulls: list[str] = []
    broker._table.guard(lambda request: pulls.append(request.header.consumer_group), [PULL])
    return pulls


@dataclass
class Side:
    """A broker, a producer and a consumer."""

    broker: Broker
    producer: WireClient
    consumer: WireClient
    held: "list[asyncio.Future[Command]]" = field(default_factory=list)

    @property
    def arrivals(self) -> Arrivals:
        return self.broker.delivery.arrivals

    async def send(self, tag: str = "a", topic: str = "orders") -> None:
        fields = send_v2_fields(topic, {"TAGS": tag})
        answer = await self.producer.ask(RequestCode.SEND_MESSAGE_V2, fields, tag.encode())
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    async def pull(self, **changes: object) -> Command:
        return await self.consumer.ask(PULL, pull_fields("orders", **changes))

    async def hold(self, offset: int, **changes: object) -> None:
        """Begin a pull, and return when it is held."""
        before = self.arrivals.held_count
        fields = held_pull_fields("orders", queueOffset=offset, **changes)
        self.held.append(self.consumer.begin(PULL, fields))
        await aeventually(lambda: self.arrivals.held_count > before, what="the pull is held")

    async def answers(self) -> list[Command]:
        answers = [await asyncio.wait_for(pull, 20) for pull in self.held]
        self.held.clear()
        return answers


@dataclass
class Both:
    """The side with the kernel and the one without."""

    compiled: Side
    pure: Side
    long_way: list[str] = field(default_factory=list)

    async def each(self, act: "Callable[[Side], object]") -> None:
        for side in (self.compiled, self.pure):
            await act(side)  # type: ignore[misc]

    async def taught(self, **changes: object) -> None:
        """Have the kernel learn a kind of pull, and count from now on what it leaves."""
        await self.each(lambda side: side.pull(**changes))
        fresh = count_pulls(self.compiled.broker)
        self.long_way = fresh

    async def answered(self) -> list[tuple[object, ...]]:
        """Return what the held pulls were answered, the same by both."""
        compiled, pure = [
            [_seen(answer) for answer in await side.answers()] for side in (self.compiled, self.pure)
        ]
        assert compiled == pure
        return compiled


def _seen(answer: Command) -> tuple[object, ...]:
    # Where messages are in the log, and so their ids, are a broker's own; the records say so too.
    return answer.code, answer.remark, answer.ext, len(answer.body), answer.opaque


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def both(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Both]:
    sides = []
    for use_kernel in (True, False):
        own = {
            "store_path_root_dir": str(tmp_path / str(use_kernel)),
            "listen_port": 0,
            "broker_ip1": "127.0.0.1",
        }
        broker = Broker(build(BrokerProcess, own), clock=clock, use_kernel=use_kernel)
        await broker.start()
        clients = [await WireClient(broker.address).__aenter__() for _ in range(2)]
        side = Side(broker, *clients)
        for _ in range(2):
            await side.send()
        sides.append(side)
    yield Both(*sides)
    for side in sides:
        for client in (side.producer, side.consumer):
            await client.close()
        await side.broker.close()


SHAPES: dict[str, dict[str, object]] = {
    "plain": {},
    "with tags": {"subscription": "a || b"},
    "with a commit": {"sysFlag": COMMITTING, "commitOffset": 1},
    "lite": {"sysFlag": int(PullFlag.SUBSCRIPTION | PullFlag.SUSPEND | PullFlag.LITE_PULL)},
    "of a newer client": {"maxMsgBytes": 1 << 20, "requestSource": 1, "bname": "broker-a"},
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_pull_is_held_and_woken_without_python(both: Both, shape: str) -> None:
    flags = {"sysFlag": int(PullFlag.SUBSCRIPTION | PullFlag.SUSPEND)}
    changes = flags | SHAPES[shape]
    await both.taught(**changes)
    await both.each(lambda side: side.hold(2, **changes))
    assert (both.compiled.arrivals.request_count, both.pure.arrivals.request_count) == (0, 1)

    await both.each(lambda side: side.send())

    [answer] = await both.answered()
    assert answer[:2] == (ResponseCode.SUCCESS, "FOUND")
    assert both.compiled.arrivals.held_count == 0
    assert both.long_way == []


async def test_a_pull_by_the_groups_heartbeat_is_held_and_woken_without_python(both: Both) -> None:
    body = heartbeat_body("one", "readers", {"orders": "b"})
    await both.each(lambda side: side.consumer.ask(RequestCode.HEART_BEAT, None, body))
    changes = {"sysFlag": BY_HEARTBEAT, "subscription": "", "subVersion": 1}
    await both.taught(**changes)
    await both.each(lambda side: side.hold(2, **changes))

    await both.each(lambda side: side.send("a"))
    assert both.compiled.arrivals.held_count == 1
    await both.each(lambda side: side.send("b"))

    [answer] = await both.answered()
    assert answer[2] == {
        "suggestWhichBrokerId": "0", "nextBeginOffset": "4", "minOffset": "0", "maxOffset": "4"
    }  # fmt: skip
    assert both.long_way == []


async def test_a_heartbeat_that_says_the_same_with_another_version_forgets_nothing(both: Both) -> None:
    changes = {"sysFlag": BY_HEARTBEAT, "subscription": "", "subVersion": 1}
    beats = [heartbeat_body("one", "readers", {"orders": "b"}, version=version) for version in (5, 3, 7)]
    await both.each(lambda side: side.consumer.ask(RequestCode.HEART_BEAT, None, beats[0]))
    await both.taught(**changes)
    for beat in beats[1:]:
        await both.each(lambda side, beat=beat: side.consumer.ask(RequestCode.HEART_BEAT, None, beat))
    await both.each(lambda side: side.pull(**changes))
    assert both.long_way == []

    # What the group wants is another thing now.
    other = heartbeat_body("one", "readers", {"orders": "a"}, version=9)
    await both.each(lambda side: side.consumer.ask(RequestCode.HEART_BEAT, None, other))
    await both.each(lambda side: side.hold(2, **changes))
    assert both.long_way == ["readers"]
    await both.each(lambda side: side.send("a"))
    assert (await both.answered())[0][0] == ResponseCode.SUCCESS


async def test_a_sweep_answers_as_python_does(both: Both, clock: ManualClock) -> None:
    kinds = ({"queueId": 0}, {"queueId": 0, "subscription": "b"})
    for changes in kinds:
        await both.taught(sysFlag=6, **changes)
    await both.each(lambda side: side.hold(2, subscription="b"))
    await both.each(lambda side: side.send("a"))
    clock.advance(5_000)
    # It moves on past what it does not want.
    assert (await both.answered())[0][:2] == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")

    await both.each(lambda side: side.hold(3))
    clock.advance(15_000)
    assert (await both.answered())[0][:2] == (ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE")


async def test_a_connection_that_ends_takes_its_pulls_along(both: Both) -> None:
    await both.taught(sysFlag=6)
    await both.each(lambda side: side.hold(2))
    await both.each(lambda side: side.consumer.close())
    for side in (both.compiled, both.pure):
        await aeventually(lambda side=side: side.arrivals.held_count == 0, what="the pull is dropped")
        side.held.clear()
    await both.each(lambda side: side.send())


async def test_a_pull_whose_topic_went_while_it_was_held_hears_so(both: Both, clock: ManualClock) -> None:
    await both.taught(sysFlag=6)
    await both.each(lambda side: side.hold(2))
    gone = {"topic": "orders"}
    await both.each(lambda side: side.producer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, gone))
    clock.advance(15_000)
    [answer] = await both.answered()
    assert answer[0] == ResponseCode.TOPIC_NOT_EXIST


async def test_a_broker_that_stops_refuses_the_pulls_that_it_holds(both: Both) -> None:
    await both.taught(sysFlag=6)
    await both.each(lambda side: side.hold(2))
    await both.each(lambda side: side.broker.close())
    [answer] = await both.answered()
    assert answer[0] == ResponseCode.SERVICE_NOT_AVAILABLE


async def test_limits_of_held_pulls_count_those_of_the_kernel(both: Both) -> None:
    await both.taught(sysFlag=6)
    await both.each(lambda side: side.broker.live.change("heldPullsMax=1"))
    await both.taught(sysFlag=6)
    await both.each(lambda side: side.hold(2))
    answers = [await side.pull(queueOffset=2, sysFlag=6) for side in (both.compiled, both.pure)]
    assert [_seen(answer)[:3] for answer in answers] == [_seen(answers[0])[:3]] * 2
    assert answers[0].code == ResponseCode.PULL_NOT_FOUND
    await both.each(lambda side: side.send())
    await both.answered()


async def test_a_first_commit_one_that_goes_back_and_one_of_another_group_are_kept(both: Both) -> None:
    for commit in (2, 1, 2, 2):
        changes = {"sysFlag": int(PullFlag.COMMIT_OFFSET | PullFlag.SUBSCRIPTION), "commitOffset": commit}
        await both.each(lambda side, changes=changes: side.pull(**changes))
        told = [
            side.broker.groups.offsets.progress("readers", "orders", 0) for side in (both.compiled, both.pure)
        ]
        assert told == [commit, commit]


async def test_a_slaves_pulls_take_the_shortcut_and_commit_nothing(tmp_path: Path) -> None:
    async with running_pair(tmp_path) as pair:
        await pair.master.connect().send("orders")
        await pair.caught_up()
        slave = pair.slave.broker
        async with WireClient(slave.address) as client:
            fields = pull_fields("orders", sysFlag=COMMITTING, commitOffset=1)
            first = await client.ask(PULL, fields)
            long_way = count_pulls(slave)
            second = await client.ask(PULL, fields)
            held = client.begin(PULL, fields | {"queueOffset": 1, "suspendTimeoutMillis": 15_000})
            await aeventually(lambda: slave.delivery.arrivals.held_count == 1, what="the pull is held")
            await pair.master.connect().send("orders", b"another")
            woken = await asyncio.wait_for(held, 20)
        assert [answer.code for answer in (first, second, woken)] == [ResponseCode.SUCCESS] * 3
        assert (first.ext, first.body) == (second.ext, second.body)
        assert long_way == []
        assert slave.groups.offsets.progress("readers", "orders", 0) is None


@pytest.mark.parametrize(("role", "flush"), [("SYNC_MASTER", "ASYNC_FLUSH"), ("ASYNC_MASTER", "SYNC_FLUSH")])
async def test_with_failover_and_on_disk_the_shortcut_reads_what_is_confirmed(
    tmp_path: Path, role: str, flush: str
) -> None:
    async with reign_of(tmp_path, role=role, flush=flush, sync_flush_timeout=60_000) as stage:
        broker, end = stage.broker, stage.stored_end("orders")
        async with WireClient(broker.address) as client:
            flags = {"sysFlag": int(PullFlag.SUBSCRIPTION | PullFlag.SUSPEND)}
            await client.ask(PULL, pull_fields("orders", **flags))
            long_way = count_pulls(broker)
            with ExitStack() as lagging:
                if flush == "SYNC_FLUSH":
                    lagging.enter_context(stage.files.held_syncs())
                else:
                    stage.wait_for_replica()
                stage.clock.advance(10)
                sending = asyncio.ensure_future(stage.connect().send("orders", b"unsafe"))
                while stage.stored_end("orders") == end:
                    await settle()
                seen = await client.ask(PULL, pull_fields("orders", **flags))
                assert (seen.ext or {})["maxOffset"] == str(end)
                held = client.begin(PULL, held_pull_fields("orders", queueOffset=end))
                await aeventually(lambda: broker.delivery.arrivals.held_count == 1, what="the pull is held")
                assert not held.done()
            if flush != "SYNC_FLUSH":
                stage.replica_has_all()
            found = await asyncio.wait_for(held, 20)
        assert (found.code, (found.ext or {})["maxOffset"]) == (ResponseCode.SUCCESS, str(end + 1))
        assert long_way == []
        await sending
