"""Every answer that tells where a queue ends tells where it ends for readers.

A synchronous master with failover lets nobody read what its in-sync replica does not have: if it is lost, the
next master gives the same offsets to other messages. Under synchronous flush no master lets anybody read what
its disk does not have: after a power cut it gives the same offsets away itself. With a write buffer no master
lets anybody read what is not committed. Whoever plans by an end must not hear of more either.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from kinds_stage import Peer, settle
from reign_stage import REPLICA_ID, ReignStage, reign_of

from pyromq.broker.replication.standing import Standing
from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.waiting import aeventually

pytestmark = pytest.mark.row("HA-02")

CONFIRMED, STORED = 2, 5
QUEUE = {"topic": "orders", "queueId": 0}
FAR_MS = 2_000_000_000_000


class LaggingStage:
    """A master of which something, a replica, its disk or its file, does not have the newest messages."""

    def __init__(self, stage: ReignStage, what: str) -> None:
        self._stage = stage
        self._what = what
        self._held = ExitStack()
        self.connect, self.broker, self.clock = stage.connect, stage.broker, stage.clock

    def lag(self) -> None:
        """Let what is stored from now on be nowhere else."""
        if self._what == "disk":
            self._held.enter_context(self._stage.files.held_syncs())
        elif self._what == "file":
            self.broker.commit()
        else:
            self._stage.wait_for_replica()

    async def catch_up(self) -> None:
        """Let it have all that is in the log."""
        store = self.broker.store
        if self._what == "disk":
            self._held.close()
        elif self._what == "file":
            self.broker.commit()
        else:
            self._stage.replica_has_all()
        await aeventually(lambda: store.readable_position == store.max_position, what="all may be read")


#: What lags, and the role and the flush of a master that waits for it before anybody reads.
LAGGING = {
    "replica": ("SYNC_MASTER", "ASYNC_FLUSH"),
    "disk": ("ASYNC_MASTER", "SYNC_FLUSH"),
    "file": ("ASYNC_MASTER", "ASYNC_FLUSH"),
}


@pytest.fixture(params=LAGGING)
async def stage(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[LaggingStage]:
    """Two messages that the replica, or the disk, has, and later three that it has not."""
    role, flush = LAGGING[request.param]
    is_buffered = request.param == "file"
    async with reign_of(
        tmp_path, role=role, flush=flush, sync_flush_timeout=60_000, transient_store_pool_enable=is_buffered
    ) as master:
        stage = LaggingStage(master, request.param)
        client = stage.connect("sender")
        await client.send("orders")
        for queue_id in range(4):
            commit = {"consumerGroup": "readers", "topic": "orders", "queueId": queue_id, "commitOffset": 0}
            await client.request(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
        stage.lag()
        stage.clock.advance(10)
        sends = [asyncio.ensure_future(client.send("orders")) for _ in range(STORED - CONFIRMED)]
        queue = stage.broker.store.queue("orders", 0)
        assert queue is not None
        while queue.end < STORED:
            await settle()
        yield stage
        await stage.catch_up()
        await asyncio.gather(*sends)


async def _ext(client: Peer, code: int, fields: dict[str, object], name: str) -> int:
    answer = await client.request(code, fields)
    return int((answer.ext or {})[name])


async def _highest(client: Peer, code: int, fields: dict[str, object], pattern: str) -> int:
    answer = await client.request(code, fields)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return max(map(int, re.findall(pattern.encode(), answer.body)))


async def _reset_to_end(client: Peer) -> int:
    await client.heartbeat(consumer="readers")
    fields = {"topic": "orders", "group": "readers", "timestamp": -1, "isForce": True}
    return await _highest(client, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields, r"\}:(\d+)")


async def _reset_to_time(client: Peer) -> int:
    await client.heartbeat(consumer="readers")
    fields = {"topic": "orders", "group": "readers", "timestamp": FAR_MS, "isForce": True}
    return await _highest(client, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields, r"\}:(\d+)")


async def _pull_end(client: Peer) -> int:
    return int(((await client.pull("orders")).ext or {})["maxOffset"])


async def _pull_beyond(client: Peer) -> int:
    return int(((await client.pull("orders", offset=STORED)).ext or {})["maxOffset"])


ENDS: dict[str, Callable[[Peer], Awaitable[int]]] = {
    "GET_MAX_OFFSET": lambda client: _ext(client, RequestCode.GET_MAX_OFFSET, QUEUE, "offset"),
    "GET_TOPIC_STATS_INFO": lambda client: _highest(
        client, RequestCode.GET_TOPIC_STATS_INFO, {"topic": "orders"}, r'"maxOffset":(\d+)'
    ),
    "GET_CONSUME_STATS": lambda client: _highest(
        client, RequestCode.GET_CONSUME_STATS, {"consumerGroup": "readers"}, r'"brokerOffset":(\d+)'
    ),
    "QUERY_CONSUME_QUEUE": lambda client: _highest(
        client,
        RequestCode.QUERY_CONSUME_QUEUE,
        QUEUE | {"index": 0, "count": 10},
        r'"maxQueueIndex":(\d+)',
    ),
    "SEARCH_OFFSET_BY_TIMESTAMP": lambda client: _ext(
        client, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, QUEUE | {"timestamp": FAR_MS}, "offset"
    ),
    "a reset to the end": _reset_to_end,
    "a reset to a time": _reset_to_time,
    "a pull": _pull_end,
    "a pull from behind the end": _pull_beyond,
}


@pytest.mark.parametrize("code", ENDS)
async def test_no_code_tells_an_end_that_the_replica_or_the_disk_does_not_have(
    stage: LaggingStage, code: str
) -> None:
    assert await ENDS[code](stage.connect()) <= CONFIRMED


@pytest.mark.parametrize("code", [code for code in ENDS if "TIME" not in code and "time" not in code])
async def test_every_code_tells_the_end_once_it_may_be_read(stage: LaggingStage, code: str) -> None:
    await stage.catch_up()

    assert await ENDS[code](stage.connect()) == STORED


async def test_the_stats_of_all_groups_tell_the_end_for_readers(stage: LaggingStage) -> None:
    client = stage.connect()
    await client.heartbeat(consumer="readers")

    answer = await client.request(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": False})

    ends = {int(end) for end in re.findall(rb'"brokerOffset":(\d+)', answer.body)}
    assert ends == {0, CONFIRMED}


async def test_the_rows_of_a_queue_end_where_it_does_for_readers(stage: LaggingStage) -> None:
    fields = QUEUE | {"index": 0, "count": 10}

    rows = await stage.connect().request(RequestCode.QUERY_CONSUME_QUEUE, fields)
    beyond = await stage.connect().request(RequestCode.QUERY_CONSUME_QUEUE, fields | {"index": CONFIRMED})

    assert rows.body.count(b'"physicOffset"') == CONFIRMED
    assert "is not exist" in (beyond.remark or "")


async def test_times_are_told_of_messages_that_can_be_read(stage: LaggingStage) -> None:
    client = stage.connect()
    newest_ms = (await client.stored("orders"))[-1].stored_at_ms

    span = await client.request(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "orders", "group": "readers"})
    stats = await client.request(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "orders"})

    assert max(map(int, re.findall(rb'"maxTimeStamp":(-?\d+)', span.body))) == newest_ms
    assert max(map(int, re.findall(rb'"lastUpdateTimestamp":(\d+)', stats.body))) == newest_ms


async def test_a_queue_without_a_message_that_can_be_read_has_no_earliest_time(stage: LaggingStage) -> None:
    send = asyncio.ensure_future(stage.connect().send("orders", queue_id=3))
    store = stage.broker.store
    while store.max_offset("orders", 3) == 0:
        await settle()

    fields = {"topic": "orders", "queueId": 3}
    answer = await stage.connect().request(RequestCode.GET_EARLIEST_MSG_STORETIME, fields)

    assert (answer.ext or {})["timestamp"] == "-1"
    await stage.catch_up()
    assert (await send).code == ResponseCode.SUCCESS


# A new master, before its replicas have said what they have ------------------------------------------------


@pytest.fixture
async def new_master(tmp_path: Path) -> AsyncIterator[ReignStage]:
    """A synchronous master that begins on five messages, and waits for a replica that is not there yet."""
    async with reign_of(tmp_path, role="SYNC_MASTER", flush="ASYNC_FLUSH") as stage:
        client = stage.connect()
        for _ in range(STORED - 1):
            await client.send("orders")
        await client.request(
            RequestCode.UPDATE_CONSUMER_OFFSET,
            {"consumerGroup": "readers", "topic": "orders", "queueId": 0, "commitOffset": STORED},
        )
        await stage.restart(_elected())
        yield stage


def _elected(confirmed: int = 0) -> Standing:
    return Standing(epoch=2, in_sync=frozenset({REPLICA_ID}), confirmed=confirmed)


ASKED = {
    RequestCode.GET_MAX_OFFSET: QUEUE,
    RequestCode.GET_TOPIC_STATS_INFO: {"topic": "orders"},
    RequestCode.GET_CONSUME_STATS: {"consumerGroup": "readers"},
    RequestCode.GET_BROKER_CONSUME_STATS: {"isOrder": False},
    RequestCode.QUERY_CONSUME_QUEUE: QUEUE | {"index": 0, "count": 10},
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: QUEUE | {"timestamp": FAR_MS},
    RequestCode.GET_EARLIEST_MSG_STORETIME: QUEUE,
    RequestCode.QUERY_CONSUME_TIME_SPAN: {"topic": "orders", "group": "readers"},
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: {
        "topic": "orders",
        "group": "readers",
        "timestamp": -1,
        "isForce": True,
    },
}


@pytest.mark.parametrize("code", ASKED)
async def test_no_code_tells_that_queues_are_empty_before_their_ends_are_known(
    new_master: ReignStage, code: RequestCode
) -> None:
    client = new_master.connect()
    await client.heartbeat(consumer="readers")

    asked = await client.request(code, ASKED[code])
    new_master.replica_has_all()
    asked_again = await client.request(code, ASKED[code])

    assert (asked.code, "ask again" in (asked.remark or "")) == (ResponseCode.SERVICE_NOT_AVAILABLE, True)
    assert asked_again.code != ResponseCode.SERVICE_NOT_AVAILABLE


async def test_a_pull_at_the_end_waits_until_ends_are_known(new_master: ReignStage) -> None:
    client = new_master.connect()
    pulling = await new_master.hold(client.pull("orders", offset=STORED, hold_ms=60_000))

    new_master.replica_has_all()
    sending = asyncio.ensure_future(client.send("orders"))
    await aeventually(lambda: new_master.broker.store.max_offset("orders", 0) > STORED)
    new_master.replica_has_all()

    assert (await sending).code == ResponseCode.SUCCESS
    assert (await pulling).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
async def test_a_new_master_lets_read_what_it_knew_to_be_confirmed_as_a_slave(
    new_master: ReignStage, part: float
) -> None:
    end = new_master.broker.max_position
    await new_master.restart(_elected(confirmed=int(end * part)))
    client = new_master.connect()

    found = await client.pull("orders")
    told = await client.request(RequestCode.GET_MAX_OFFSET, QUEUE)

    assert (found.code == ResponseCode.SUCCESS) is (part > 0)
    # It tells an end when all is confirmed that the last master may have told of.
    assert told.code == (ResponseCode.SUCCESS if part == 1 else ResponseCode.SERVICE_NOT_AVAILABLE)
