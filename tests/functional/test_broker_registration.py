import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from harness.ports import free_broker_port

from pyromq.broker.broker import Broker
from pyromq.clock import Clock, SystemClock
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import MIB, BrokerProcess, BrokerSettings, NetSettings, StoreSettings
from pyromq.errors import ListenFailed, StoreLocked
from pyromq.net.routes import Answer, Request, RequestTable, Route
from pyromq.net.server import Server
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.registration_bodies import RegisterBrokerBody, decode_register_broker
from pyromq.wire.bodies.route_bodies import decode_route
from pyromq.wire.headers.namesrv_headers import RegisterBroker, UnregisterBroker

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


class Registry:
    """A name server that only notes what brokers tell it."""

    def __init__(self) -> None:
        self.registered: list[tuple[RegisterBroker, RegisterBrokerBody]] = []
        self.unregistered: list[UnregisterBroker] = []
        self.is_mute = False
        table = RequestTable(
            [
                Route(RequestCode.REGISTER_BROKER, self._register, RegisterBroker),
                Route(RequestCode.UNREGISTER_BROKER, self._unregister, UnregisterBroker),
            ]
        )
        self._server = Server(table, NetSettings(), clock=SystemClock(), name="registry")

    async def start(self) -> str:
        _, port = await self._server.start("127.0.0.1", 0)
        return f"127.0.0.1:{port}"

    async def close(self) -> None:
        await self._server.close()

    @property
    def topics(self) -> set[str]:
        return set(self.registered[-1][1].topics.topic_config_table) if self.registered else set()

    def _register(self, request: Request[RegisterBroker]) -> Answer | None:
        header = request.header
        body = decode_register_broker(request.body, compressed=header.compressed, crc32=header.body_crc32)
        self.registered.append((header, body))
        return None if self.is_mute else Answer(ext={})

    def _unregister(self, request: Request[UnregisterBroker]) -> Answer:
        self.unregistered.append(request.header)
        return Answer()


@pytest.fixture
async def registries() -> AsyncIterator[list[Registry]]:
    registries = [Registry(), Registry()]
    yield registries
    for registry in registries:
        await registry.close()


def process(folder: Path, *addresses: str, **changes: object) -> BrokerProcess:
    settings = BrokerSettings(listen_port=0, namesrv_addr=";".join(addresses))
    return BrokerProcess(
        broker=replace(settings, **changes),  # type: ignore[arg-type]
        store=StoreSettings(store_path_root_dir=str(folder), mapped_file_size_commit_log=1 * MIB),
    )


@asynccontextmanager
async def running(process: BrokerProcess, clock: Clock | None = None) -> AsyncIterator[Broker]:
    broker = Broker(process, clock=clock or SystemClock())
    await broker.start()
    try:
        yield broker
    finally:
        await broker.close()


@pytest.mark.row("NS-08", "NS-17")
async def test_a_broker_registers_with_every_name_server_before_it_is_ready(
    tmp_path: Path, registries: list[Registry]
) -> None:
    addresses = [await registry.start() for registry in registries]
    async with running(process(tmp_path, *addresses)):
        assert [len(registry.registered) for registry in registries] == [1, 1]


@pytest.mark.row("NS-09")
@pytest.mark.parametrize("compressed", [False, True])
async def test_a_registration_says_who_the_broker_is_and_what_it_has(
    tmp_path: Path, registries: list[Registry], compressed: bool
) -> None:
    address = await registries[0].start()
    async with running(process(tmp_path, address, compressed_register=compressed)) as broker:
        header, body = registries[0].registered[0]
        assert header.broker_name == "broker-a"
        assert header.cluster_name == "DefaultCluster"
        assert header.broker_addr == broker.address
        assert header.broker_id == 0
        # The next port, unless somebody else has it.
        assert header.ha_server_addr == broker.ha_address
        assert "TBW102" in body.topics.topic_config_table
        assert body.filter_servers == []


@pytest.mark.row("NS-08")
async def test_a_broker_registers_again_after_ten_seconds_and_then_every_thirty(
    tmp_path: Path, registries: list[Registry]
) -> None:
    registry = registries[0]
    clock = ManualClock()
    # The first look at transactions makes their topics, which would be told at once.
    settings = {"transaction_check_interval": 3_600_000}
    async with running(process(tmp_path, await registry.start(), **settings), clock):
        for seconds, count in ((10, 2), (30, 3), (30, 4)):
            clock.advance(seconds * 1_000)
            await aeventually(lambda count=count: len(registry.registered) == count)


@pytest.mark.row("PR-10")
async def test_a_topic_that_changes_is_told_at_once(tmp_path: Path, registries: list[Registry]) -> None:
    registry = registries[0]
    async with (
        running(process(tmp_path, await registry.start())) as broker,
        WireClient(broker.address) as client,
    ):
        await client.ask(RequestCode.SEND_MESSAGE_V2, send_v2_fields("orders"), b"x")
        await aeventually(lambda: "orders" in registry.topics)


async def test_a_created_topic_is_known_everywhere_when_it_is_answered(
    tmp_path: Path, registries: list[Registry]
) -> None:
    addresses = [await registry.start() for registry in registries]
    async with (
        running(process(tmp_path, *addresses)) as broker,
        WireClient(broker.address) as client,
    ):
        answer = await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields("orders"))
        assert answer.code == ResponseCode.SUCCESS
        assert ["orders" in registry.topics for registry in registries] == [True, True]


def topic_fields(topic: str, **changes: object) -> dict[str, object]:
    fields: dict[str, object] = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": 4,
        "writeQueueNums": 4,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
    }
    return fields | changes


@pytest.mark.row("NS-18")
async def test_a_name_server_that_is_down_holds_up_no_other(
    tmp_path: Path, registries: list[Registry]
) -> None:
    address = await registries[0].start()
    with socket.socket() as taken:
        # Nobody listens there, nor can.
        taken.bind(("127.0.0.1", 0))
        gone = f"127.0.0.1:{taken.getsockname()[1]}"

        async with running(process(tmp_path, gone, address)):
            assert len(registries[0].registered) == 1


async def test_a_name_server_that_does_not_answer_holds_up_the_start_no_longer_than_the_settings_say(
    tmp_path: Path, registries: list[Registry]
) -> None:
    registries[0].is_mute = True
    address = await registries[0].start()
    async with running(process(tmp_path, address, register_broker_timeout_mills=50)):
        assert len(registries[0].registered) == 1


async def test_a_broker_that_stops_leaves_every_name_server(
    tmp_path: Path, registries: list[Registry]
) -> None:
    addresses = [await registry.start() for registry in registries]
    async with running(process(tmp_path, *addresses)) as broker:
        address = broker.address

    assert [[one.broker_addr for one in registry.unregistered] for registry in registries] == [[address]] * 2


async def test_a_broker_that_may_only_be_read_registers_its_topics_so(
    tmp_path: Path, registries: list[Registry]
) -> None:
    registry = registries[0]
    async with running(process(tmp_path, await registry.start(), broker_permission=4)):
        _, body = registry.registered[0]
        assert {config.perm for config in body.topics.topic_config_table.values()} == {4}


@pytest.mark.row("PR-11")
async def test_without_automatic_creation_nobody_has_a_route_to_the_default_topic(tmp_path: Path) -> None:
    async with (
        Cluster(data_dir=tmp_path, auto_create_topic_enable=False) as cluster,
        WireClient(cluster.namesrv_address) as name_server,
    ):
        answer = await name_server.ask(ROUTE, {"topic": "TBW102"})
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.row("PR-09")
async def test_the_default_topic_has_eight_queues_and_may_be_inherited(tmp_path: Path) -> None:
    async with Cluster(data_dir=tmp_path) as cluster, WireClient(cluster.namesrv_address) as name_server:
        route = decode_route((await name_server.ask(ROUTE, {"topic": "TBW102"})).body)
    assert [(queues.read_queue_nums, queues.perm) for queues in route.queue_datas] == [(8, 7)]


# Topics of operators ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "filter_type", "remark"),
    [
        ("a b", "SINGLE_TAG", "The specified topic contains illegal characters"),
        ("t" * 128, "SINGLE_TAG", "The specified topic is longer than topic max length."),
        ("TBW102", "SINGLE_TAG", "The topic[TBW102] is conflict with system topic."),
        ("orders", "NO_TAG", "topicFilterType = [NO_TAG] value invalid"),
    ],
)
async def test_a_topic_that_may_not_be_created_is_refused(
    tmp_path: Path, topic: str, filter_type: str, remark: str
) -> None:
    fields = topic_fields(topic, topicFilterType=filter_type)
    async with Cluster(data_dir=tmp_path) as cluster, WireClient(cluster.broker_addresses[0]) as client:
        answer = await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark is not None
    assert answer.remark.startswith(remark)


# Starting and stopping -------------------------------------------------------------------------------------


async def test_messages_and_topics_survive_a_restart(tmp_path: Path) -> None:
    async with Cluster(data_dir=tmp_path) as cluster:
        async with WireClient(cluster.broker_addresses[0]) as client:
            await client.ask(RequestCode.SEND_MESSAGE_V2, send_v2_fields("orders"), b"kept")
        await cluster.stop_broker("broker-a")
        await cluster.start_broker("broker-a")
        async with WireClient(cluster.broker_addresses[0]) as client:
            answer = await client.ask(RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": 0})
            assert answer.ext == {"offset": "1"}
            sent = await client.ask(RequestCode.SEND_MESSAGE_V2, send_v2_fields("orders"), b"next")
            assert sent.ext is not None
            assert sent.ext["queueOffset"] == "1"


async def test_two_brokers_do_not_share_a_store(tmp_path: Path) -> None:
    async with running(process(tmp_path)):
        with pytest.raises(StoreLocked):
            await Broker(process(tmp_path)).start()


async def test_a_start_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    async with running(process(tmp_path / "first")) as first:
        with pytest.raises(ListenFailed):
            await Broker(process(tmp_path / "second", listen_port=first.port)).start()

    async with running(process(tmp_path / "second")):
        pass


@pytest.mark.row("PR-24")
async def test_the_vip_port_is_two_below(tmp_path: Path) -> None:
    port = free_broker_port()
    async with (
        running(process(tmp_path, listen_port=port)),
        WireClient(f"127.0.0.1:{port - 2}") as client,
    ):
        answer = await client.ask(RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": 0})
    assert answer.code == ResponseCode.SUCCESS


async def test_a_vip_port_that_is_taken_does_not_keep_a_broker_from_starting(tmp_path: Path) -> None:
    port = free_broker_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port - 2))
        taken.listen()
        async with running(process(tmp_path, listen_port=port)) as broker:
            assert broker.port == port
