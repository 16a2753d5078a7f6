"""A lease at a real etcd, and by it the lease of a master here, on a clock that the test moves."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from etcd import EtcdServer, running_etcd

from pyromq.broker.durability.acknowledgement import Lease
from pyromq.broker.failover.endpoints import read_endpoints
from pyromq.broker.failover.etcd_client import EtcdClient, Transaction
from pyromq.broker.failover.lease_session import LeaseSession
from pyromq.clock import Clock, SystemClock
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually

#: Beats come every second; a machine that stands still for so long keeps its lease.
LEASE_S = 4


@asynccontextmanager
async def session_at(etcd: EtcdClient, clock: Clock) -> AsyncIterator[tuple[LeaseSession, asyncio.Event]]:
    changed = asyncio.Event()
    session = LeaseSession(etcd, lease_s=LEASE_S, clock=clock, on_change=changed.set)
    session.start()
    try:
        await aeventually(lambda: session.id, what="there is a lease")
        yield session, changed
    finally:
        await session.abandon()


async def bound(etcd: EtcdClient, session: LeaseSession, prefix: str) -> Lease:
    """Put a master's key, and return its lease."""
    key = f"{prefix}leader"
    assert await etcd.commit(Transaction(puts={key: (b"me", session.id)}))
    return session.bind(key)


async def test_a_master_may_acknowledge_for_less_than_the_lease_from_when_it_was_asked_for(
    etcd: EtcdClient, prefix: str
) -> None:
    clock = ManualClock()
    async with session_at(etcd, clock) as (session, _):
        lease = await bound(etcd, session, prefix)
        assert lease.is_held
        clock.advance(LEASE_S * 1000 - 1)
        assert not lease.is_held


async def test_a_lease_is_renewed_from_when_its_keep_alive_was_sent(etcd: EtcdClient, prefix: str) -> None:
    clock = ManualClock()
    async with session_at(etcd, clock) as (session, _):
        lease = await bound(etcd, session, prefix)
        clock.advance(LEASE_S * 1000)
        assert not lease.is_held
        await aeventually(lambda: lease.is_held, what="the lease is renewed")


async def test_an_answer_that_was_long_on_its_way_does_not_make_a_lease_longer(
    etcd: EtcdClient, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    answered = asyncio.Event()
    keep_alive = etcd.keep_alive

    async def late(lease: int) -> float:
        ttl_s = await keep_alive(lease)
        # The process stands still between the answer's coming and its being read.
        clock.advance(LEASE_S * 1000)
        answered.set()
        return ttl_s

    monkeypatch.setattr(etcd, "keep_alive", late)
    async with session_at(etcd, clock) as (session, _):
        lease = await bound(etcd, session, prefix)
        await answered.wait()
        await asyncio.sleep(0)
        assert not lease.is_held


async def test_a_lease_that_etcd_forgot_is_held_no_more_and_another_is_asked_for(
    etcd: EtcdClient, prefix: str
) -> None:
    async with session_at(etcd, SystemClock()) as (session, changed):
        lease, first = await bound(etcd, session, prefix), session.id
        changed.clear()
        await etcd.revoke(first)
        await asyncio.wait_for(changed.wait(), 60)
        await aeventually(lambda: session.id not in (0, first), 60, what="there is another lease")
        assert not lease.is_held


async def test_a_lease_whose_key_is_gone_is_held_no_more_although_it_lives(
    etcd: EtcdClient, prefix: str
) -> None:
    clock = ManualClock()
    async with session_at(etcd, clock) as (session, changed):
        lease = await bound(etcd, session, prefix)
        changed.clear()
        assert await etcd.commit(Transaction(deletes=[f"{prefix}leader"]))
        await asyncio.wait_for(changed.wait(), 60)
        assert not lease.is_held
        assert not session.is_bound_to(lease)
        assert await etcd.keep_alive(session.id) > 0


async def test_a_session_that_ends_in_order_gives_its_lease_back(etcd: EtcdClient, prefix: str) -> None:
    async with session_at(etcd, SystemClock()) as (session, _):
        lease_id = session.id
        await session.close()
        assert await etcd.keep_alive(lease_id) == 0


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EtcdServer]:
    with running_etcd(tmp_path) as server:
        yield server


async def test_a_lease_outlives_a_restart_of_etcd_but_is_not_held_meanwhile(
    own_server: EtcdServer, prefix: str
) -> None:
    etcd = EtcdClient(read_endpoints(own_server.address), answer_s=5.0)
    async with session_at(etcd, SystemClock()) as (session, _):
        lease, lease_id = await bound(etcd, session, prefix), session.id
        own_server.kill()
        await aeventually(lambda: not lease.is_held, what="the lease is over")
        await asyncio.to_thread(own_server.start)
        await aeventually(lambda: session.trouble is None, 60, what="etcd answers again")
        await aeventually(lambda: session.id != lease_id or lease.is_held, 60, what="there is a lease")
    await etcd.close()
