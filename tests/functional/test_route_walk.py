"""Every route is walked: for strangers, on a slave, without a lease, on a full disk, with absurd input.

The tables say what is to be expected, so a new route is walked as soon as it is listed. Whatever is refused
is refused with a code and a remark, and the server lives on.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from access_stage import NOBODY, NOBODY_SECRET, OPERATOR, OPERATOR_SECRET, is_denied, signed, write_accounts
from kinds_stage import TIMEOUT_S, ManualStage, Peer, Stage, running_stage
from loop_thread import LoopThread, loop_thread
from namesrv_stage import name_server
from route_listing import broker_routes, namesrv_routes
from route_walk import GROUP, TOPIC, absurd_fields, body_of, fields_of, name_of
from staged_files import StagedFiles

from pyromq.broker.access.needs import Anybody, administrator
from pyromq.broker.broker import Broker
from pyromq.broker.durability.acknowledgement import Lease
from pyromq.broker.replication.standing import Standing
from pyromq.broker.requests.route_facts import BrokerRoute, OnSlave
from pyromq.codes import RequestCode as Code
from pyromq.codes import ResponseCode
from pyromq.config.choices import BrokerRole
from pyromq.config.settings import NetSettings
from pyromq.net.links import Links
from pyromq.net.routes import BodyLimit, Route
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually
from pyromq.wire.bodies.staging_bodies import PartChunks, StagedBody, encode_staged
from pyromq.wire.command import Command
from pyromq.wire.header import read_header
from pyromq.wire.message_id import offset_message_id, parse_offset_message_id

every_route = pytest.mark.parametrize("route", broker_routes(), ids=name_of)
every_namesrv_route = pytest.mark.parametrize("route", namesrv_routes(), ids=name_of)


class Walked:
    """A server on a thread, and a client of it."""

    def __init__(self, thread: LoopThread, stage: Stage) -> None:
        self.stage = stage
        self._thread = thread
        self._peer: Peer = stage.connect()

    def ask(self, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> Command:
        """Ask the broker; the connection outlives every answer."""
        return self._thread.run(self._peer.request(code, fields, body=body))

    def walk(self, route: Route[Any]) -> Command:
        """Ask what a route answers, about a topic and a group."""
        return self.ask(route.code, fields_of(route), body_of(route))

    def as_account(self, account: tuple[str, str], route: Route[Any]) -> Command:
        """Ask the same, signed."""
        body = body_of(route)
        return self.ask(route.code, signed(route.code, fields_of(route), body, *account), body)


@pytest.fixture(scope="module")
def thread() -> Iterator[LoopThread]:
    with loop_thread() as thread:
        yield thread


def walked(thread: LoopThread, folder: Path, **settings: object) -> Walked:
    return Walked(thread, thread.enter(running_stage(folder, **settings)))


def says_why(answer: Command) -> bool:
    return answer.code != ResponseCode.SUCCESS and bool(answer.remark)


# Access control ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(thread: LoopThread, tmp_path_factory: pytest.TempPathFactory) -> Walked:
    folder = write_accounts(tmp_path_factory.mktemp("conf"))
    guarded = walked(thread, tmp_path_factory.mktemp("guarded"), acl_enable=True, acl_folder=str(folder))
    # A message that can be asked for by its position, which is 0.
    send = {"a": "p", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0"}
    sent = guarded.ask(310, signed(310, send, b"body", OPERATOR, OPERATOR_SECRET), b"body")
    assert sent.code == ResponseCode.SUCCESS, sent.remark
    return guarded


@every_route
def test_nobody_without_an_account(guarded: Walked, route: BrokerRoute[Any]) -> None:
    answer = guarded.walk(route)

    assert is_denied(answer)
    assert says_why(answer)


@every_route
def test_an_account_without_permissions_may_what_is_open_to_all(
    guarded: Walked, route: BrokerRoute[Any]
) -> None:
    answer = guarded.as_account((NOBODY, NOBODY_SECRET), route)

    if isinstance(route.needs, Anybody):
        assert not is_denied(answer)
    else:
        assert is_denied(answer)
        needed = "Need admin permission" if route.needs is administrator else "No default permission for"
        assert needed in (answer.remark or "")


@every_route
def test_an_administrator_may_everything(guarded: Walked, route: BrokerRoute[Any]) -> None:
    assert not is_denied(guarded.as_account((OPERATOR, OPERATOR_SECRET), route))


# A slave ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def slave(thread: LoopThread, tmp_path_factory: pytest.TempPathFactory) -> Walked:
    return walked(thread, tmp_path_factory.mktemp("slave"), broker_role=BrokerRole.SLAVE, broker_id=1)


@every_route
def test_a_slave_refuses_what_is_its_masters_and_answers_the_rest(
    slave: Walked, route: BrokerRoute[Any]
) -> None:
    answer = slave.walk(route)

    if route.on_slave is OnSlave.ANSWERS:
        assert "slave" not in (answer.remark or "")
        assert answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED or route.code in (9202, 9203)
    else:
        assert says_why(answer)
        assert "slave" in (answer.remark or "")
        assert answer.ext == route.refusal_ext or route.refusal_ext not in (None, {})


# No lease ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def leaseless(thread: LoopThread, tmp_path_factory: pytest.TempPathFactory) -> Walked:
    stage = ManualStage(tmp_path_factory.mktemp("leaseless"), ManualClock())
    stage.broker = Broker(stage._process, clock=stage.clock, standing=Standing(lease=Lease(lambda: 0.0)))
    return Walked(thread, thread.enter(started(stage)))


@asynccontextmanager
async def started(stage: Stage) -> AsyncIterator[Stage]:
    await stage.start()
    try:
        yield stage
    finally:
        await stage.close()


@every_route
def test_without_its_lease_a_master_answers_nothing(leaseless: Walked, route: BrokerRoute[Any]) -> None:
    answer = leaseless.walk(route)

    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "no longer the master" in (answer.remark or "")


# A full disk ------------------------------------------------------------------------------------------------

Written = tuple[dict[str, str], bytes]
QUERY = {"query": "q", "home": "broker-a"}
BATCH_BODY = bytes.fromhex("0000001a 00000000 00000000 00000000 00000004 626f6479 0000".replace(" ", ""))
PART = PartChunks(part=0, attempt="a", chunks={"broker-a": 1})


def send_fields(properties: str = "", sys_flag: int = 0) -> dict[str, str]:
    names = ["producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums"]
    names += ["queueId", "sysFlag", "bornTimestamp", "flag"]
    values = [GROUP, TOPIC, "TBW102", "4", "0", str(sys_flag), "1700000000000", "0"]
    return dict(zip(names, values, strict=True)) | {"properties": properties}


def short(fields: dict[str, str]) -> dict[str, str]:
    return dict(zip("abcdefghi", fields.values(), strict=True))


class Writes:
    """A request for every route that writes, which would be taken if there were room."""

    def __init__(self, broker: Walked) -> None:
        self._broker = broker
        self._positions = [
            parse_offset_message_id((self.taken(Code.SEND_MESSAGE, fields, b"body").ext or {})["msgId"])
            for fields in (
                send_fields(),
                send_fields(f"TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02UNIQ_KEY\x01U1", sys_flag=4),
            )
        ]
        timed = self.taken(
            Code.SEND_MESSAGE, send_fields("UNIQ_KEY\x01U2\x02TIMER_DELAY_MS\x0160000"), b"body"
        )
        self._handle = (timed.ext or {})["recallHandle"]
        layout = encode_staged(StagedBody(layout={TOPIC: {"broker-a": 4}}))
        self.taken(Code.OPEN_STAGED_BATCH, {**QUERY, "batch": "0"}, layout)
        self.taken(Code.STAGE_MESSAGES, *self._chunk("a"))

    def taken(self, code: int, fields: dict[str, str], body: bytes) -> Command:
        answer = self._broker.ask(code, fields, body)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return answer

    def request(self, code: int) -> Written:
        """Return the fields and the body."""
        plain, half = (place.position for place in self._positions)
        parts = encode_staged(StagedBody(parts=[PART]))
        requests: dict[int, Written] = {
            **dict.fromkeys((10, 324), (send_fields(), b"body")),
            **dict.fromkeys((310, 325), (short(send_fields()), b"body")),
            320: (short(send_fields()) | {"m": "true"}, BATCH_BODY),
            36: ({"offset": str(plain), "group": GROUP, "delayLevel": "3"}, b""),
            37: (self._end(half), b""),
            370: ({"topic": TOPIC, "recallHandle": self._handle}, b""),
            323: ({"msgId": offset_message_id(bytes(8), half)}, b""),
            9101: ({**QUERY, "batch": "1"}, encode_staged(StagedBody(layout={TOPIC: {"broker-a": 4}}))),
            9102: self._chunk("another"),
            9103: ({**QUERY, "batch": "0"}, parts),
            9104: ({**QUERY, "batch": "0"}, parts),
        }
        assert code in requests, f"say here how a request {code} looks that writes"
        return requests[code]

    def _chunk(self, attempt: str) -> Written:
        fields = {**QUERY, "batch": "0", "part": "0", "attempt": attempt, "sequence": "0"}
        return {**fields, "topic": TOPIC, "queueId": "0", "bornTimestamp": "0"}, BATCH_BODY

    def _end(self, half: int) -> dict[str, str]:
        fields = {"producerGroup": GROUP, "tranStateTableOffset": "0", "commitLogOffset": str(half)}
        return {**fields, "commitOrRollback": "8", "msgId": "U1"}


def filled(thread: LoopThread, folder: Path) -> tuple[Walked, Writes]:
    """Return a broker that has some messages and no more room."""
    files, clock = StagedFiles(), ManualClock()
    broker = walked(thread, folder, files=files, clock=clock)
    writes = Writes(broker)
    files.percent_used = 95
    clock.advance(10_000)

    async def is_full() -> bool:
        return not broker.stage.broker.has_room

    thread.run(aeventually(is_full))
    return broker, writes


@pytest.fixture(scope="module")
def full(thread: LoopThread, tmp_path_factory: pytest.TempPathFactory) -> tuple[Walked, Writes]:
    return filled(thread, tmp_path_factory.mktemp("full"))


@pytest.fixture(scope="module")
def full_and_changing(thread: LoopThread, tmp_path_factory: pytest.TempPathFactory) -> Walked:
    return filled(thread, tmp_path_factory.mktemp("changing"))[0]


@pytest.mark.parametrize("route", [route for route in broker_routes() if route.writes], ids=name_of)
def test_on_a_full_disk_nothing_is_written_and_the_cause_is_told(
    full: tuple[Walked, Writes], route: BrokerRoute[Any]
) -> None:
    broker, writes = full
    end = broker.stage.broker.max_position

    answer = broker.ask(route.code, *writes.request(route.code))

    assert says_why(answer)
    if route.code not in NOT_STORED_ON_PURPOSE:
        assert "disk" in (answer.remark or "")
    assert broker.stage.broker.max_position == end


#: A reply is pushed, and stored only besides; what became of the push is the answer, as with RocketMQ.
#: What is no half message that was given up is not resumed.
NOT_STORED_ON_PURPOSE = (324, 325, 323)


@pytest.mark.parametrize("route", [route for route in broker_routes() if not route.writes], ids=name_of)
def test_on_a_full_disk_the_rest_is_answered(full_and_changing: Walked, route: BrokerRoute[Any]) -> None:
    answer = full_and_changing.walk(route)

    assert answer.code == ResponseCode.SUCCESS or answer.remark
    assert answer.code != ResponseCode.SERVICE_NOT_AVAILABLE


# Absurd input -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain(thread: LoopThread, tmp_path_factory: pytest.TempPathFactory) -> Walked:
    return walked(thread, tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def ask_name_server(thread: LoopThread, tmp_path_factory: pytest.TempPathFactory) -> "Ask":
    path = tmp_path_factory.mktemp("namesrv") / "kvConfig.json"
    server = thread.enter(name_server(kv_config_path=str(path)))
    links = thread.enter(some_links())

    def ask(code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> Command:
        command = Command(code, ext=fields, body=body)
        return thread.run(links.request(f"127.0.0.1:{server.port}", command, TIMEOUT_S))

    return ask


@asynccontextmanager
async def some_links() -> AsyncIterator[Links]:
    links = Links(NetSettings())
    try:
        yield links
    finally:
        await links.close()


Ask = Callable[[int, dict[str, str], bytes], Command]


def check_absurd(ask: Ask, route: Route[Any]) -> None:
    """Ask with everything that is wrong: each is answered, and refusals say why."""
    for what, fields in absurd_fields(route):
        answer = ask(route.code, fields, body_of(route))
        assert answer.code == ResponseCode.SUCCESS or answer.remark, what
        assert len(answer.remark or "") < 2_000_000, what
    for body in (b"\xff" * 1000, b"{" * 100_000, b'{"a":' * 1000, bytes(60_000)):
        answer = ask(route.code, fields_of(route), body)
        assert answer.code == ResponseCode.SUCCESS or answer.remark, body[:10]


def check_too_long(ask: Ask, route: Route[Any]) -> None:
    if route.body is BodyLimit.MESSAGES:
        return
    answer = ask(route.code, fields_of(route), bytes(route.body + 1))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert f"carries at most {int(route.body)} bytes of body" in (answer.remark or "")


@every_route
def test_a_broker_answers_absurd_input_and_lives_on(plain: Walked, route: BrokerRoute[Any]) -> None:
    check_absurd(plain.ask, route)
    check_too_long(plain.ask, route)

    assert plain.ask(Code.GET_BROKER_RUNTIME_INFO).code == ResponseCode.SUCCESS
    sent = plain.ask(Code.SEND_MESSAGE, send_fields(), b"body")
    assert sent.code == ResponseCode.SUCCESS, sent.remark


@every_namesrv_route
def test_a_name_server_answers_absurd_input_and_lives_on(ask_name_server: Ask, route: Route[Any]) -> None:
    check_absurd(ask_name_server, route)
    check_too_long(ask_name_server, route)

    assert ask_name_server(Code.GET_BROKER_CLUSTER_INFO, {}, b"").code == ResponseCode.SUCCESS


# Answers ----------------------------------------------------------------------------------------------------


@every_route
def test_an_answer_has_the_fields_that_its_route_says(plain: Walked, route: BrokerRoute[Any]) -> None:
    answer = plain.walk(route)

    if answer.code == ResponseCode.SUCCESS and route.answer is not None:
        read_header(route.answer, answer.ext)
    elif answer.code == ResponseCode.SUCCESS:
        assert answer.ext is None


def test_a_pull_that_the_kernel_knows_may_have_no_longer_body_than_others(plain: Walked) -> None:
    sent = plain.ask(Code.SEND_MESSAGE, send_fields() | {"topic": "pulled"}, b"body")
    pull = {
        "consumerGroup": GROUP,
        "topic": "pulled",
        "queueId": "0",
        "queueOffset": "0",
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
    }
    answers = [plain.ask(Code.PULL_MESSAGE, pull) for _ in range(3)]

    refused = plain.ask(Code.PULL_MESSAGE, pull, bytes(BodyLimit.FIELDS_ONLY + 1))
    ignored = plain.ask(Code.PULL_MESSAGE, pull, b"a body that nobody reads")

    assert sent.code == ResponseCode.SUCCESS, sent.remark
    assert [answer.code for answer in answers] == [ResponseCode.SUCCESS] * 3
    assert "bytes of body" in (refused.remark or "")
    assert ignored.body == answers[0].body
