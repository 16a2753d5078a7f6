"""The client of etcd, against a real one."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest
from etcd import EtcdServer

from pyromq.broker.failover.endpoints import read_endpoints
from pyromq.broker.failover.etcd_client import EtcdClient, LeaseGone, Transaction
from pyromq.errors import EtcdFailed
from pyromq.testing.waiting import aeventually


async def put(etcd: EtcdClient, key: str, value: bytes = b"x", lease: int = 0) -> None:
    assert await etcd.commit(Transaction(puts={key: (value, lease)}))


async def test_what_was_put_under_a_prefix_is_found_by_the_rest_of_its_key(
    etcd: EtcdClient, prefix: str
) -> None:
    await put(etcd, f"{prefix}state", b"\x00\xff")
    await put(etcd, f"{prefix}replicas/127.0.0.1:1", b"")
    await put(etcd, f"{prefix[:-1]}0", b"behind the prefix")
    found = await etcd.find(prefix)
    assert {key: item.value for key, item in found.items.items()} == {
        "state": b"\x00\xff",
        "replicas/127.0.0.1:1": b"",
    }


async def test_of_two_who_take_a_key_that_is_not_there_one_gets_it(etcd: EtcdClient, prefix: str) -> None:
    key = f"{prefix}leader"
    taken = await asyncio.gather(
        *(etcd.commit(Transaction(unchanged={key: 0}, puts={key: (name, 0)})) for name in (b"a", b"b"))
    )
    assert sorted(taken) == [False, True]


async def test_a_change_that_builds_on_an_old_revision_is_not_made(etcd: EtcdClient, prefix: str) -> None:
    key = f"{prefix}state"
    await put(etcd, key, b"1")
    seen = (await etcd.find(prefix)).items["state"].revision
    await put(etcd, key, b"2")
    assert not await etcd.commit(Transaction(unchanged={key: seen}, puts={key: (b"3", 0)}))
    assert (await etcd.find(prefix)).items["state"].value == b"2"


async def test_puts_and_deletes_of_a_transaction_are_made_together(etcd: EtcdClient, prefix: str) -> None:
    await put(etcd, f"{prefix}leader")
    before = (await etcd.find(prefix)).items["leader"].revision
    change = Transaction(
        unchanged={f"{prefix}leader": before}, puts={f"{prefix}state": (b"s", 0)}, deletes=[f"{prefix}leader"]
    )
    assert await etcd.commit(change)
    assert (await etcd.find(prefix)).items.keys() == {"state"}


async def test_keys_go_with_the_lease_that_they_live_with(etcd: EtcdClient, prefix: str) -> None:
    lease, _ = await etcd.grant(60)
    await put(etcd, f"{prefix}leader", lease=lease)
    assert (await etcd.find(prefix)).items["leader"].lease == lease
    await etcd.revoke(lease)
    assert not (await etcd.find(prefix)).items


async def test_a_lease_that_is_kept_has_its_whole_time_again_and_one_that_ended_none(
    etcd: EtcdClient,
) -> None:
    lease, ttl_s = await etcd.grant(60)
    assert ttl_s == 60
    assert await etcd.keep_alive(lease) == 60
    await etcd.revoke(lease)
    assert await etcd.keep_alive(lease) == 0


async def test_a_lease_can_be_revoked_twice(etcd: EtcdClient) -> None:
    lease, _ = await etcd.grant(60)
    await etcd.revoke(lease)
    await etcd.revoke(lease)


async def test_a_key_cannot_live_with_a_lease_that_ended(etcd: EtcdClient, prefix: str) -> None:
    lease, _ = await etcd.grant(60)
    await etcd.revoke(lease)
    with pytest.raises(LeaseGone):
        await put(etcd, f"{prefix}leader", lease=lease)


async def test_a_watch_tells_of_changes_after_its_revision(etcd: EtcdClient, prefix: str) -> None:
    await put(etcd, f"{prefix}state", b"1")
    seen = (await etcd.find(prefix)).revision
    await put(etcd, f"{prefix}state", b"2")
    changes = etcd.watch(prefix, seen)
    await asyncio.wait_for(anext(changes), 10)
    await put(etcd, f"{prefix}leader")
    await asyncio.wait_for(anext(changes), 10)
    await changes.aclose()  # type: ignore[attr-defined]


@pytest.fixture
async def silent_member() -> AsyncIterator[str]:
    """A member that takes connections and says nothing."""

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    yield f"{host}:{port}"
    server.close()


async def is_empty(client: EtcdClient, prefix: str) -> bool:
    """Whether nothing is under a prefix; a server that is only slow is asked again."""

    async def found() -> list[int] | None:
        try:
            return [len((await client.find(prefix)).items)]
        except EtcdFailed:
            return None

    return await aeventually(found, 30) == [0]


async def test_a_member_that_is_down_is_left_for_the_next(server: EtcdServer, prefix: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        closed_port = probe.getsockname()[1]
    client = EtcdClient(read_endpoints(f"etcd://127.0.0.1:{closed_port},127.0.0.1:{server.port}"))
    await put(client, f"{prefix}state")
    assert "state" in (await client.find(prefix)).items
    await client.close()


async def test_a_read_goes_to_the_next_member_when_one_is_silent(
    server: EtcdServer, silent_member: str, prefix: str
) -> None:
    client = EtcdClient(read_endpoints(f"etcd://{silent_member},127.0.0.1:{server.port}"), answer_s=0.5)
    assert await is_empty(client, prefix)
    await client.close()


async def test_a_change_is_not_sent_again_when_it_may_have_arrived(
    server: EtcdServer, silent_member: str, prefix: str
) -> None:
    client = EtcdClient(read_endpoints(f"etcd://{silent_member},127.0.0.1:{server.port}"), answer_s=0.5)
    with pytest.raises(EtcdFailed) as failure:
        await put(client, f"{prefix}state")
    assert failure.value.may_be_done
    assert silent_member in str(failure.value)
    assert await is_empty(client, prefix)
    await client.close()


async def test_who_does_not_answer_and_why_is_said_for_every_member(silent_member: str) -> None:
    client = EtcdClient(read_endpoints(f"etcd://{silent_member},127.0.0.1:1"), answer_s=0.2)
    with pytest.raises(EtcdFailed, match=rf"{silent_member}: no answer within 0.2 s; 127.0.0.1:1: "):
        await client.find("/x/")
    await client.close()
