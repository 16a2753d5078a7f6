"""Settings that change while a broker runs: the kernel answers as Python does, right after the change."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pytest

from pyromq.broker.broker import Broker
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.field import Setting
from pyromq.config.load import build, settings_by_name
from pyromq.config.settings import BrokerProcess
from pyromq.config.values import write_value
from pyromq.kernel import WHY_PURE
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import heartbeat_body, pull_fields, send_v2_fields
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.topic_bodies import TopicConfig
from pyromq.wire.command import Command

pytestmark = pytest.mark.skipif(WHY_PURE is not None, reason=f"there is nothing to compare: {WHY_PURE}")

TOPICS = ("orders", "ordered", "payments")
#: What asks for each way to wait elsewhere first; nothing is due here.
WAITS = {"DELAY": "18", "TIMER_DELAY_SEC": "60", "TRAN_MSG": "true"}
#: Further values than the smallest and the largest, where those do not say much.
MORE = {"start_accept_send_request_time_stamp": ("1", "99999999999999"), "broker_permission": ("0", "2", "4")}
LIVE = [setting for setting in settings_by_name(BrokerProcess).values() if setting.live]


def values_of(setting: Setting) -> tuple[str, ...]:
    """Return values that a setting may have, its default last."""
    default = write_value(setting.default)
    if setting.form == "hours":
        return "05", default
    if setting.form == "addresses":
        return "127.0.0.1:1", default
    if isinstance(setting.default, StrEnum):
        return (*(each.value for each in type(setting.default)), default)
    if isinstance(setting.default, bool):
        return str(not setting.default).lower(), default
    if isinstance(setting.default, int):
        least, most = setting.at_least or 0, setting.at_most or 2**31 - 1
        return (*MORE.get(setting.name, (str(least), str(most), str(least + 1))), default)
    return "another", default


@dataclass
class Side:
    """A broker and a connection to it."""

    broker: Broker
    client: WireClient

    async def send(self, topic: str, waits: str = "", **changes: object) -> Command:
        asked = {waits: WAITS[waits]} if waits else {}
        fields = send_v2_fields(topic, {"TAGS": "a", **asked}, **changes)
        return await self.client.ask(RequestCode.SEND_MESSAGE_V2, fields, b"x" * 100)

    async def pull(self, topic: str, **changes: object) -> Command:
        return await self.client.ask(RequestCode.PULL_MESSAGE, pull_fields(topic, **changes))

    async def change(self, lines: str) -> None:
        answer = await self.client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, lines.encode())
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    async def teach(self) -> None:
        """Let the kernel learn what it can."""
        for _ in range(3):
            await self.heard()

    async def heard(self) -> list[object]:
        """Return what is answered to sends and pulls; an id tells which broker it was, and is left out."""
        answers = [await self.send(topic) for topic in TOPICS]
        answers += [await self.send("orders", waits) for waits in WAITS]
        for topic in TOPICS:
            answers.append(await self.pull(topic))
            answers.append(await self.pull(topic, queueOffset=1, maxMsgNums=2, subscription="a"))
        return [(one.code, _masked(one), len(one.body)) for one in answers]


def _masked(answer: Command) -> object:
    fields = {name: text for name, text in (answer.ext or {}).items() if name != "msgId"}
    return answer.remark, fields


class WallClock(ManualClock):
    """A clock that an operator may set back."""

    def set_back(self, ms: int) -> None:
        """Let it be earlier than it was."""
        self._now_ms -= ms


@pytest.fixture
def clock() -> WallClock:
    return WallClock()


@pytest.fixture
async def sides(tmp_path: Path, clock: ManualClock) -> AsyncIterator[list[Side]]:
    sides = []
    for use_kernel in (True, False):
        own = {
            "store_path_root_dir": str(tmp_path / str(use_kernel)),
            "listen_port": 0,
            "broker_ip1": "127.0.0.1",
            "reject_inconsistent_subscription": True,
        }
        broker = Broker(build(BrokerProcess, own), clock=clock, use_kernel=use_kernel)
        await broker.start()
        side = Side(broker, await WireClient(broker.address).__aenter__())
        broker.topics.put(TopicConfig(topic_name="ordered", order=True))
        await side.teach()
        sides.append(side)
    yield sides
    for side in sides:
        await side.client.close()
        await side.broker.close()


async def agreed(sides: list[Side]) -> list[object]:
    compiled, pure = [await side.heard() for side in sides]
    assert compiled == pure
    return compiled


@pytest.mark.parametrize("setting", LIVE, ids=lambda setting: setting.key)
async def test_right_after_a_change_the_kernel_answers_as_python_does(
    sides: list[Side], setting: Setting
) -> None:
    usual = await agreed(sides)
    for value in values_of(setting):
        for side in sides:
            await side.change(f"{setting.key}={value}")
        await agreed(sides)
        for side in sides:
            await side.teach()
        heard = await agreed(sides)

    # The value before this test holds again: other offsets, the same codes.
    assert [one[0] for one in heard] == [one[0] for one in usual]  # type: ignore[index]


async def test_the_walk_meets_settings_that_change_what_is_answered(sides: list[Side]) -> None:
    """Else it would compare what never differs."""
    told = [await agreed(sides)]
    for line in (
        "startAcceptSendRequestTimeStamp=99999999999999",
        "startAcceptSendRequestTimeStamp=0\nbrokerPermission=4",
        "brokerPermission=2",
        "brokerPermission=6\nmaxTransferCountOnMessageInMemory=1",
    ):
        for side in sides:
            await side.change(line)
        told.append(await agreed(sides))
    assert len({str([(one[0], one[2]) for one in heard]) for heard in told}) == len(told)  # type: ignore[index]


async def test_the_kernel_hears_of_a_change_before_it_is_on_disk(sides: list[Side]) -> None:
    compiled = sides[0]
    changing = asyncio.ensure_future(
        compiled.broker.live.change("startAcceptSendRequestTimeStamp=99999999999999")
    )
    await asyncio.sleep(0)

    refused = await compiled.send("orders")

    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "unable to service" in (refused.remark or "")
    await changing


async def test_sends_are_taken_from_the_time_that_the_setting_says_and_not_before(
    sides: list[Side], clock: WallClock
) -> None:
    start_ms = clock.now_ms() + 10_000
    for side in sides:
        await side.change(f"startAcceptSendRequestTimeStamp={start_ms}")

    async def codes() -> list[int]:
        return [(await side.send("orders")).code for side in sides]

    too_early = [ResponseCode.SYSTEM_ERROR] * 2
    assert await codes() == too_early
    clock.advance(10_000)
    for _ in range(3):
        assert await codes() == [ResponseCode.SUCCESS] * 2
    # Whoever sets the clock back has the broker refuse again; the kernel has learnt the queue by now.
    clock.set_back(1)
    assert await codes() == too_early


async def test_a_permission_by_either_of_its_names_is_told_to_the_name_servers(sides: list[Side]) -> None:
    topics = sides[0].broker.topics
    for name in ("brokerPermission", "broker_permission"):
        before = topics.revision
        await sides[0].change(f"{name}=6")
        assert topics.revision > before


async def test_a_client_that_its_group_refuses_is_not_answered_by_the_kernel(sides: list[Side]) -> None:
    """Its pulls look like those of the members, whom the kernel has learnt."""
    for side in sides:
        for client_id, topics in (("one", {"orders": "*"}), ("two", {"orders": "*"})):
            async with WireClient(side.broker.address) as member:
                body = heartbeat_body(client_id, "readers", topics)
                assert (await member.ask(RequestCode.HEART_BEAT, None, body)).code == ResponseCode.SUCCESS
                for _ in range(3):
                    await member.ask(RequestCode.PULL_MESSAGE, pull_fields("orders"))
                async with WireClient(side.broker.address) as stranger:
                    other = heartbeat_body("odd", "readers", {"orders": "*", "payments": "*"})
                    await stranger.ask(RequestCode.HEART_BEAT, None, other)
                    answer = await stranger.ask(RequestCode.PULL_MESSAGE, pull_fields("orders"))
                    assert answer.code == ResponseCode.NO_PERMISSION
