"""A broker's name servers while it runs: added and removed by an operator, told by an HTTP address, kept."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from failover_stage import UNHURRIED_MS, stage_of
from http_pages import Pages, served_pages
from namesrv_stage import name_server

from pyromq import Message
from pyromq.aio import Producer
from pyromq.broker.broker import Broker
from pyromq.broker.failover.supervisor import Supervisor
from pyromq.broker.registration_targets import RegistrationTargets
from pyromq.codes import RequestCode
from pyromq.config.choices import BrokerRole
from pyromq.config.settings import MIB, BrokerProcess, BrokerSettings, StoreSettings
from pyromq.namesrv.namesrv import NameServer
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.route_bodies import decode_cluster

UPDATE = RequestCode.UPDATE_BROKER_CONFIG
DEAD = "127.0.0.1:1"
PATH = "/rocketmq/nsaddr"


@pytest.fixture
async def first() -> AsyncIterator[NameServer]:
    async with name_server() as server:
        yield server


@pytest.fixture
async def added() -> AsyncIterator[NameServer]:
    async with name_server() as server:
        yield server


@pytest.fixture
def pages() -> Iterator[Pages]:
    with served_pages() as pages:
        yield pages


def process(folder: Path, *name_servers: NameServer, **changes: object) -> BrokerProcess:
    settings = BrokerSettings(listen_port=0, namesrv_addr=";".join(one.address for one in name_servers))
    return BrokerProcess(
        broker=replace(settings, **changes),  # type: ignore[arg-type]
        store=StoreSettings(store_path_root_dir=str(folder), mapped_file_size_commit_log=1 * MIB),
    )


async def known_at(server: NameServer) -> dict[str, dict[int, str]]:
    """Which brokers a name server knows: name → id → address."""
    async with WireClient(server.address) as client:
        answer = await client.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
    table = decode_cluster(answer.body).broker_addr_table
    return {name: broker.broker_addrs for name, broker in table.items()}


async def is_known_at(server: NameServer) -> bool:
    return bool(await known_at(server))


async def is_forgotten_at(server: NameServer) -> bool:
    return not await known_at(server)


async def change(broker: Broker | Supervisor, *name_servers: str) -> None:
    async with WireClient(broker.address) as client:
        answer = await client.ask(UPDATE, None, f"namesrvAddr={';'.join(name_servers)}\n".encode())
    assert answer.code == 0, answer.remark


@pytest.mark.row("NS-20")
async def test_a_broker_is_known_at_an_added_name_server_at_once_and_at_a_removed_one_no_more(
    tmp_path: Path, first: NameServer, added: NameServer
) -> None:
    broker = Broker(process(tmp_path, first))
    await broker.start()
    try:
        here = {"broker-a": {0: broker.address}}
        await change(broker, first.address, added.address)
        assert (await known_at(first), await known_at(added)) == (here, here)

        await change(broker, added.address)
        assert (await known_at(first), await known_at(added)) == ({}, here)

        # What comes later goes to those of now.
        async with Producer("pg", added.address) as producer:
            await producer.send(Message("new-topic", b"x"))
        assert await known_at(first) == {}
    finally:
        await broker.close()
    assert await known_at(added) == {}


@pytest.mark.row("NS-20")
async def test_an_added_name_server_that_is_down_keeps_nobody_from_the_others(
    tmp_path: Path, first: NameServer, added: NameServer
) -> None:
    broker = Broker(process(tmp_path, first))
    await broker.start()
    try:
        await change(broker, DEAD, added.address)
        assert (await known_at(first), await known_at(added)) == ({}, {"broker-a": {0: broker.address}})
    finally:
        await broker.close()


async def test_name_servers_that_do_not_read_change_nothing(tmp_path: Path, first: NameServer) -> None:
    broker = Broker(process(tmp_path, first))
    await broker.start()
    try:
        async with WireClient(broker.address) as client:
            answer = await client.ask(UPDATE, None, b"namesrvAddr=nowhere\n")
        assert "host:port" in (answer.remark or "")
        assert await known_at(first) == {"broker-a": {0: broker.address}}
    finally:
        await broker.close()


async def test_the_change_holds_after_a_restart_unless_that_is_given_other_name_servers(
    tmp_path: Path, first: NameServer, added: NameServer
) -> None:
    broker = Broker(process(tmp_path, first))
    await broker.start()
    await change(broker, added.address)
    await broker.close()

    again = Broker(process(tmp_path, first))
    await again.start()
    assert (await known_at(first), list(await known_at(added))) == ({}, ["broker-a"])
    await again.close()

    async with name_server() as other:
        moved = Broker(process(tmp_path, other))
        await moved.start()
        assert (list(await known_at(other)), await known_at(added)) == (["broker-a"], {})
        await moved.close()

    back = Broker(process(tmp_path, first))
    await back.start()
    assert (list(await known_at(first)), await known_at(added)) == (["broker-a"], {})
    await back.close()


async def test_a_slave_finds_its_master_at_a_name_server_that_was_added_to_both(
    tmp_path: Path, first: NameServer, added: NameServer
) -> None:
    master = Broker(process(tmp_path / "master", first))
    slave = Broker(process(tmp_path / "slave", first, broker_id=1, broker_role=BrokerRole.SLAVE))
    await master.start()
    await slave.start()
    try:
        for broker in (master, slave):
            await change(broker, added.address)
        await first.close()
        assert await known_at(added) == {"broker-a": {0: master.address, 1: slave.address}}
        async with Producer("pg", added.address) as producer:
            await producer.send(Message("copied", b"x"))
        await aeventually(lambda: slave.max_position == master.max_position > 0)
    finally:
        await slave.close()
        await master.close()


@pytest.mark.row("AD-04", "NS-20")
async def test_an_http_address_tells_name_servers_at_the_start_after_ten_seconds_and_every_two_minutes(
    tmp_path: Path, first: NameServer, added: NameServer, pages: Pages
) -> None:
    clock = ManualClock()
    pages.says(PATH, first.address)
    broker = Broker(
        process(tmp_path, fetch_namesrv_addr_by_address_server=True, rmq_address_server_domain=pages.address),
        clock=clock,
    )
    await broker.start()
    try:
        here = {"broker-a": {0: broker.address}}
        assert (await known_at(first), await known_at(added), len(pages.asked)) == (here, {}, 1)

        pages.says(PATH, f"{first.address};{added.address}")
        clock.advance(9_000)
        assert (await known_at(added), len(pages.asked)) == ({}, 1)
        clock.advance(2_000)
        await aeventually(lambda: is_known_at(added))
        assert len(pages.asked) == 2

        pages.says(PATH, added.address)
        clock.advance(118_000)
        assert (await known_at(first), len(pages.asked)) == (here, 2)
        clock.advance(3_000)
        await aeventually(lambda: is_forgotten_at(first))
        assert (await known_at(added), len(pages.asked)) == (here, 3)

        del pages.answers[PATH]
        clock.advance(121_000)
        await aeventually(lambda: len(pages.asked) == 4)
        assert await known_at(added) == here
    finally:
        await broker.close()


async def test_an_http_address_that_does_not_answer_at_the_start_is_asked_again_soon(
    tmp_path: Path, first: NameServer, pages: Pages, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    broker = Broker(
        process(tmp_path, fetch_namesrv_addr_by_address_server=True, rmq_address_server_domain=pages.address),
        clock=clock,
    )
    await broker.start()
    try:
        assert "clients cannot find this broker" in caplog.text
        clock.advance(11_000)
        await aeventually(lambda: len(pages.asked) == 2)
        pages.says(PATH, first.address)
        clock.advance(6_000)
        await aeventually(lambda: is_known_at(first))
    finally:
        await broker.close()


async def test_given_name_servers_come_before_those_of_the_http_address_until_they_are_taken_away(
    tmp_path: Path, first: NameServer, added: NameServer, pages: Pages
) -> None:
    clock = ManualClock()
    pages.says(PATH, added.address)
    settings = process(
        tmp_path,
        first,
        fetch_namesrv_addr_by_address_server=True,
        rmq_address_server_domain=pages.address,
    )
    broker = Broker(settings, clock=clock)
    await broker.start()
    try:
        clock.advance(11_000)
        assert (list(await known_at(first)), await known_at(added), pages.asked) == (["broker-a"], {}, [])
        await change(broker, "")
        clock.advance(121_000)
        await aeventually(lambda: is_known_at(added))
        assert await known_at(first) == {}
    finally:
        await broker.close()


@pytest.mark.row("AD-04")
def test_a_broker_that_is_to_ask_asks_the_address_of_rocketmq_unless_another_is_named() -> None:
    told = RegistrationTargets(BrokerSettings(fetch_namesrv_addr_by_address_server=True))

    assert (told.is_asking, told.url) == (True, "http://jmenv.tbsite.net:8080/rocketmq/nsaddr")
    assert not RegistrationTargets(BrokerSettings()).is_asking


@pytest.mark.timeout(180)
async def test_a_group_with_failover_keeps_the_added_name_server_when_the_master_changes(
    tmp_path: Path, added: NameServer
) -> None:
    async with stage_of(tmp_path, failover_lease=UNHURRIED_MS) as stage:
        master = await stage.master()
        (slave,) = stage.others(master)
        for replica in (master, slave):
            await change(replica, added.address)
        async with WireClient(master.address) as client:
            answer = await client.ask(RequestCode.SWITCH_MASTER, {"newMaster": slave.address})
        assert answer.code == 0, answer.remark
        await stage.master(but=master)
        await stage.in_sync(2)

        async def is_switched() -> bool:
            ids = (await known_at(added)).get("broker-a", {})
            return ids.get(0) == slave.address and master.address in ids.values()

        await aeventually(is_switched)
        async with WireClient(stage.name_server) as client:
            answer = await client.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
        assert decode_cluster(answer.body).broker_addr_table == {}
