"""A broker that is busy says so: SYSTEM_BUSY before anything is stored, and what it acknowledged is there.

Time is moved by hand: a slow disk is a write during which the clock goes on, a slow loop a request during
which it does. Whether the compiled kernel refuses or Python does, both say the same bytes.
"""

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from kinds_stage import ManualStage, running_stage
from staged_files import StagedFiles

from pyromq.broker.requests.busy import QUIET_S
from pyromq.broker.requests.route_facts import look
from pyromq.codes import RequestCode, ResponseCode, Serializer
from pyromq.kernel import IS_COMPILED
from pyromq.net.routes import Answer, Request
from pyromq.testing.requests import heartbeat_body, pull_fields, send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.command import Command
from pyromq.wire.record import iter_records

#: A request of the test's own, for which the loop takes as long as its body says.
SLOW = 32_001
SUCCESS, BUSY = ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY
END_TRANSACTION = {
    "producerGroup": "p", "tranStateTableOffset": 0, "commitLogOffset": 0, "commitOrRollback": 8,
    "fromTransactionCheck": False, "msgId": "", "transactionId": "",
}  # fmt: skip


class BusyStage:
    """A broker, its disk and its loop, and connections to it."""

    def __init__(self, stage: ManualStage, files: StagedFiles, closing: AsyncExitStack) -> None:
        self.stage = stage
        self.files = files
        self.clock = stage.clock
        self.has_kernel = IS_COMPILED
        self._closing = closing
        stage.broker._table.add([look(SLOW, self._take_long)])

    def _take_long(self, request: Request[None]) -> Answer:
        self.clock.advance(int(request.body))
        return Answer()

    async def connect(self, serializer: int = Serializer.JSON) -> WireClient:
        return await self._closing.enter_async_context(WireClient(self.stage.address, serializer=serializer))

    def rest(self) -> None:
        """Let the loop have nothing to do for a second."""
        self.clock.advance(1_000)

    async def teach(self, client: WireClient) -> None:
        """Let the kernel, if there is one, know the topic."""
        for _ in range(3):
            assert (await send(client, b"before")).code == SUCCESS

    async def stored(self) -> list[bytes]:
        """Return the bodies of what is in the log, apart from what was sent before."""
        client = await self.connect()
        answer = await client.ask(RequestCode.PULL_MESSAGE, pull_fields("orders", maxMsgNums=1000))
        return [record.body for record in iter_records(answer.body) if record.body != b"before"]

    async def change(self, lines: str) -> None:
        client = await self.connect()
        answer = await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, lines.encode())
        assert answer.code == SUCCESS, answer.remark

    async def runtime(self) -> dict[str, str]:
        client = await self.connect()
        answer = await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        table: dict[str, str] = json.loads(answer.body)["table"]
        return table


def send(client: WireClient, body: bytes) -> "asyncio.Future[Command]":
    return client.begin(RequestCode.SEND_MESSAGE_V2, send_v2_fields("orders"), body)


def slow(client: WireClient, ms: int) -> "asyncio.Future[Command]":
    return client.begin(SLOW, None, str(ms).encode())


@pytest.fixture
def files() -> StagedFiles:
    return StagedFiles()


@pytest.fixture
async def busy(tmp_path: Path, files: StagedFiles) -> AsyncIterator[BusyStage]:
    async with running_stage(tmp_path, files=files) as stage, AsyncExitStack() as closing:
        yield BusyStage(stage, files, closing)


# The disk ------------------------------------------------------------------------------------------------


@pytest.mark.row("FF-01")
async def test_sends_that_waited_for_a_slow_write_are_refused_and_not_stored(busy: BusyStage) -> None:
    clients = [await busy.connect() for _ in range(8)]
    await busy.teach(clients[0])
    busy.files.before_log_write = lambda: busy.clock.advance(1_000)
    answers = await asyncio.gather(*(send(one, b"%d" % number) for number, one in enumerate(clients)))
    busy.files.before_log_write = lambda: None

    taken = [b"%d" % number for number, answer in enumerate(answers) if answer.code == SUCCESS]
    refused = [answer for answer in answers if answer.code != SUCCESS]
    # The first write of a turn shows how the disk is; who waited for it is not made to wait for the next.
    assert len(taken) == 1
    assert {answer.code for answer in refused} == {BUSY}
    for answer in refused:
        assert re.fullmatch(
            r"\[PCBUSY_CLEAN_QUEUE\]broker busy, start flow control for a while, "
            r"period in queue: 1000ms, size of queue: 0",
            answer.remark or "",
        )
        assert answer.ext is None
    assert await busy.stored() == taken
    # The disk is quick again.
    assert (await send(clients[1], b"after")).code == SUCCESS
    assert await busy.stored() == [*taken, b"after"]


@pytest.mark.row("FF-01")
async def test_a_slow_write_does_not_refuse_what_comes_later(busy: BusyStage) -> None:
    client = await busy.connect()
    await busy.teach(client)
    busy.files.before_log_write = lambda: busy.clock.advance(5_000)
    # Each is slow, each is alone.
    assert [(await send(client, b"%d" % number)).code for number in range(3)] == [SUCCESS] * 3
    assert await busy.stored() == [b"0", b"1", b"2"]


# The loop ------------------------------------------------------------------------------------------------


@pytest.mark.row("FF-02")
@pytest.mark.parametrize("serializer", [Serializer.JSON, Serializer.ROCKETMQ])
async def test_sends_that_waited_too_long_for_the_loop_are_refused(busy: BusyStage, serializer: int) -> None:
    client = await busy.connect(serializer)
    await busy.teach(client)

    in_time = [slow(client, 199), send(client, b"in time")]
    assert [answer.code for answer in await asyncio.gather(*in_time)] == [SUCCESS, SUCCESS]

    busy.rest()
    asked = [slow(client, 200), send(client, b"late"), send(client, b"late too")]
    answers = await asyncio.gather(*asked)
    assert [answer.code for answer in answers] == [SUCCESS, BUSY, BUSY]
    assert answers[1].remark == (
        "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
        "period in queue: 200ms, size of queue: 0"
    )
    assert answers[1].ext in (None, {})
    assert await busy.stored() == [b"in time"]


@pytest.mark.row("FF-02")
async def test_sends_of_other_connections_wait_for_the_same_loop(busy: BusyStage) -> None:
    first, *others = [await busy.connect() for _ in range(5)]
    for one in (first, *others):
        await busy.teach(one)
    asked = [slow(first, 300)]
    for number, one in enumerate(others):
        # The sends at the front of what came in a turn are taken together, before anything slow is handled.
        asked += [slow(one, 0), send(one, b"%d" % number)]
    answers = (await asyncio.gather(*asked))[2::2]
    assert [answer.code for answer in answers] == [BUSY] * len(others)
    assert await busy.stored() == []


@pytest.mark.row("FF-02")
async def test_sends_of_a_turn_are_taken_before_what_is_slow(busy: BusyStage) -> None:
    first, *others = [await busy.connect() for _ in range(5)]
    for one in (first, *others):
        await busy.teach(one)
    sent = [send(one, b"%d" % number) for number, one in enumerate(others)]
    answers = await asyncio.gather(slow(first, 300), *sent)
    taken = [b"%d" % number for number, answer in enumerate(answers[1:]) if answer.code == SUCCESS]
    assert {answer.code for answer in answers} <= {SUCCESS, BUSY}
    assert await busy.stored() == taken
    if busy.has_kernel:
        assert taken == [b"0", b"1", b"2", b"3"]


@pytest.mark.row("FF-02")
async def test_sends_that_came_in_a_long_turn_are_taken_for_a_quarter_of_their_patience(
    busy: BusyStage,
) -> None:
    """They waited too long; but who only refuses gets nothing done."""
    client = await busy.connect()
    await busy.teach(client)
    for next_ms, code in ((49, SUCCESS), (50, BUSY)):
        busy.rest()
        assert (await slow(client, 200)).code == SUCCESS
        answers = await asyncio.gather(slow(client, next_ms), send(client, b"%d" % next_ms))
        assert [answer.code for answer in answers] == [SUCCESS, code]
    assert "period in queue: 250ms" in (answers[1].remark or "")
    busy.rest()
    answers = await asyncio.gather(slow(client, 50), send(client, b"rested"))
    assert [answer.code for answer in answers] == [SUCCESS, SUCCESS]
    assert await busy.stored() == [b"49", b"rested"]


@pytest.mark.row("FF-02")
async def test_a_oneway_send_that_waited_too_long_is_dropped(busy: BusyStage) -> None:
    client = await busy.connect()
    await busy.teach(client)
    asked = slow(client, 300)
    client.tell(RequestCode.SEND_MESSAGE_V2, send_v2_fields("orders"), b"late")
    last = send(client, b"late too")
    assert [(await asked).code, (await last).code] == [SUCCESS, BUSY]
    assert await busy.stored() == []


@pytest.mark.row("FF-02")
async def test_a_broker_that_stood_still_takes_what_comes_next(busy: BusyStage) -> None:
    client, other = await busy.connect(), await busy.connect()
    await busy.teach(client)
    # Stopped while nothing waited, for an hour, and once more in the middle of a turn.
    busy.clock.advance(3_600_000)
    assert (await send(client, b"1")).code == SUCCESS
    answers = await asyncio.gather(slow(client, 3_600_000), send(client, b"2"))
    assert [answer.code for answer in answers] == [SUCCESS, BUSY]
    assert [(await send(one, b"3")).code for one in (client, other)] == [SUCCESS, SUCCESS]
    assert await busy.stored() == [b"1", b"3", b"3"]


@pytest.mark.row("FF-03")
async def test_each_kind_of_request_has_its_own_patience(busy: BusyStage) -> None:
    client = await busy.connect()
    await busy.teach(client)

    async def heard_after(ms: int) -> list[int]:
        busy.rest()
        asked = [
            slow(client, ms),
            client.begin(RequestCode.END_TRANSACTION, END_TRANSACTION),
            client.begin(RequestCode.PULL_MESSAGE, pull_fields("orders")),
            client.begin(RequestCode.HEART_BEAT, None, heartbeat_body("c", "readers", {"orders": "*"})),
            client.begin(RequestCode.GET_BROKER_RUNTIME_INFO),
        ]
        return [answer.code for answer in (await asyncio.gather(*asked))[1:]]

    unknown = (await heard_after(0))[0]
    assert unknown not in (SUCCESS, BUSY)
    assert await heard_after(2_999) == [unknown, SUCCESS, SUCCESS, SUCCESS]
    assert await heard_after(3_000) == [BUSY, SUCCESS, SUCCESS, SUCCESS]
    assert await heard_after(5_000) == [BUSY, BUSY, SUCCESS, SUCCESS]
    assert await heard_after(30_999) == [BUSY, BUSY, SUCCESS, SUCCESS]
    # Whoever looks after the broker is never refused.
    assert await heard_after(31_000) == [BUSY, BUSY, BUSY, SUCCESS]


# What waits ----------------------------------------------------------------------------------------------


@pytest.mark.row("FF-04")
async def test_a_send_too_many_that_waits_for_the_disk_is_refused(tmp_path: Path, files: StagedFiles) -> None:
    async with (
        running_stage(tmp_path, files=files, flush_disk_type="SYNC_FLUSH") as stage,
        AsyncExitStack() as closing,
    ):
        busy = BusyStage(stage, files, closing)
        clients = [await busy.connect() for _ in range(4)]
        await busy.teach(clients[0])
        await busy.change("sendThreadPoolQueueCapacity=3")
        # What changed has the next message go the long way, and the others the kernel's.
        assert (await send(clients[0], b"before")).code == SUCCESS
        sends = stage.broker.busy.sends
        with files.held_syncs():
            waiting = [send(one, b"%d" % number) for number, one in enumerate(clients[:3])]
            await aeventually(lambda: sends.size == 3)
            refused = await send(clients[3], b"one too many")
            table = await busy.runtime()
        assert [(await one).code for one in waiting] == [SUCCESS] * 3
        assert refused.code == BUSY
        assert refused.remark == "[OVERLOAD]system busy, start flow control for a while"
        assert table["sendThreadPoolQueueSize"] == table["sendThreadPoolQueueCapacity"] == "3"
        assert sends.size == 0
        assert (await send(clients[3], b"3")).code == SUCCESS
        assert sorted(await busy.stored()) == [b"0", b"1", b"2", b"3"]


@pytest.mark.row("FF-04")
async def test_a_connection_that_ends_leaves_no_send_waiting(tmp_path: Path, files: StagedFiles) -> None:
    async with (
        running_stage(tmp_path, files=files, flush_disk_type="SYNC_FLUSH") as stage,
        AsyncExitStack() as closing,
    ):
        busy = BusyStage(stage, files, closing)
        client = await busy.connect()
        await busy.teach(client)
        sends = stage.broker.busy.sends
        with files.held_syncs():
            leaving = await busy.connect()
            send(leaving, b"1").add_done_callback(lambda answer: answer.exception())
            await aeventually(lambda: sends.size == 1)
            leaving.abort()
            await aeventually(lambda: leaving.is_hung_up)
        await aeventually(lambda: sends.size == 0)


# Settings, and what is told ------------------------------------------------------------------------------


@pytest.mark.row("FF-05")
async def test_the_settings_hold_as_soon_as_they_are_changed(busy: BusyStage) -> None:
    client = await busy.connect()
    await busy.teach(client)
    await busy.change("waitTimeMillsInSendQueue=50\nosPageCacheBusyTimeOutMills=20")
    await busy.teach(client)
    answers = await asyncio.gather(slow(client, 50), send(client, b"late"))
    assert [answer.code for answer in answers] == [SUCCESS, BUSY]

    await busy.change("brokerFastFailureEnable=false")
    await busy.teach(client)
    answers = await asyncio.gather(slow(client, 60_000), send(client, b"late, and taken"))
    assert [answer.code for answer in answers] == [SUCCESS, SUCCESS]
    assert await busy.stored() == [b"late, and taken"]

    # RocketMQ looks at the page cache all the same, in other words.
    other = await busy.connect()
    busy.files.before_log_write = lambda: busy.clock.advance(20)
    answers = await asyncio.gather(send(client, b"slow"), send(other, b"slow"))
    assert sorted(answer.code for answer in answers) == [SUCCESS, BUSY]
    assert "[REJECTREQUEST]system busy, start flow control for a while" in {one.remark for one in answers}


@pytest.mark.row("FF-06")
async def test_it_is_told_once_that_it_began_and_once_that_it_ended(
    busy: BusyStage, caplog: pytest.LogCaptureFixture
) -> None:
    client = await busy.connect()
    await busy.teach(client)
    assert "brokerBusy" not in await busy.runtime()

    def said() -> list[str]:
        return [one.getMessage() for one in caplog.records if one.name == "pyromq.episodes"]

    with caplog.at_level(logging.WARNING, "pyromq.episodes"):
        for _ in range(3):
            answers = await asyncio.gather(slow(client, 300), send(client, b"1"), send(client, b"2"))
            assert [answer.code for answer in answers] == [SUCCESS, BUSY, BUSY]
        cause = "SYSTEM_BUSY, loop late: requests waited too long for the loop; "
        assert len(said()) == 1
        assert f"broker-a refuses requests: {cause}" in said()[0]
        table = await busy.runtime()
        assert (table["brokerBusy"], table["brokerBusyRefused"]) == ("loop late", "6")

        busy.clock.advance(int(QUIET_S * 1000))
        await aeventually(lambda: len(said()) == 2)
        assert "broker-a takes requests again, after" in said()[1]
        assert cause in said()[1]
    busy.clock.advance(60_000)
    assert "brokerBusy" not in await busy.runtime()


@pytest.mark.row("FF-07")
async def test_the_metrics_say_what_waits_and_what_was_refused(tmp_path: Path, files: StagedFiles) -> None:
    async with (
        running_stage(
            tmp_path, files=files, metrics_exporter_type="PROM", metrics_prom_exporter_port=0
        ) as stage,
        AsyncExitStack() as closing,
    ):
        busy = BusyStage(stage, files, closing)
        client = await busy.connect()
        await busy.teach(client)
        await asyncio.gather(slow(client, 300), send(client, b"1"), send(client, b"2"))
        page = stage.broker.metrics
        assert page is not None
        values = {figure.name: figure.read() for figure in page.figures}
        assert values["pyromq_busy_refusals_total"] == {("send", "loop late"): 2}
        assert values["rocketmq_processor_watermark"] == dict.fromkeys(
            [("send",), ("pull",), ("end_transaction",), ("heartbeat",), ("reply",)], 0
        )
