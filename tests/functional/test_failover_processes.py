"""Replicas as processes of their own, killed and stopped; the Python client sends through it all."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from failover_stage import LONG_S, TOPIC, UNHURRIED_MS
from replica_processes import master_of, pair

from pyromq import Message, PyroError, SendStatus
from pyromq.aio import Producer, PullConsumer
from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.requests import send_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient

pytestmark = pytest.mark.timeout(240)


class Sender:
    """Sends one message after the other, and keeps those that were acknowledged."""

    def __init__(self, name_server: str) -> None:
        self._producer = Producer("senders", name_server=name_server)
        self.acknowledged: list[str] = []
        self.longest_pause_s = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Sender":
        await self._producer.start()
        self._task = asyncio.get_running_loop().create_task(self._run())
        await aeventually(lambda: len(self.acknowledged) > 20, LONG_S, what="the sender sends")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait({self._task})
        await self._producer.close()

    async def more(self, count: int = 20) -> None:
        wanted = len(self.acknowledged) + count
        await aeventually(lambda: len(self.acknowledged) >= wanted, LONG_S, what="the sender goes on")

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        number, last_at = 0, loop.time()
        while True:
            number += 1
            try:
                result = await self._producer.send(Message(TOPIC, b"%d" % number), timeout_ms=3_000)
            except PyroError:
                await asyncio.sleep(0)
                continue
            if result.status == SendStatus.SEND_OK:
                self.acknowledged.append(f"{number}")
                self.longest_pause_s = max(self.longest_pause_s, loop.time() - last_at)
                last_at = loop.time()


async def bodies_at(name_server: str) -> list[str]:
    """Read all messages of the topic, wherever they are."""
    async with PullConsumer("readers", name_server=name_server) as consumer:
        found = []
        for queue in await consumer.queues(TOPIC):
            offset, end = await consumer.min_offset(queue), await consumer.max_offset(queue)
            while offset < end:
                pulled = await consumer.pull(queue, offset)
                found += [message.body.decode() for message in pulled.messages]
                offset = pulled.next_offset
    return found


@pytest.mark.row("HA-09")
async def test_the_other_replica_takes_over_from_a_master_that_was_killed_and_nothing_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with pair(tmp_path) as (master, slave, cluster):
        async with Sender(cluster.namesrv_address) as sender:
            master.end(signal.SIGKILL)
            await sender.more()
        with capsys.disabled():
            print(f"\n  kill -9 of the master: the sender waited {sender.longest_pause_s:.2f} s")
        assert set(sender.acknowledged) <= set(await bodies_at(cluster.namesrv_address))
        await master.start()
        await master_of(slave, in_sync=2)


async def test_a_master_that_stood_still_acknowledges_nothing_when_it_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with pair(tmp_path) as (master, slave, cluster):
        async with Sender(cluster.namesrv_address) as sender:
            master.tell(signal.SIGSTOP)
            await sender.more()
        with capsys.disabled():
            print(f"\n  SIGSTOP of the master: the sender waited {sender.longest_pause_s:.2f} s")
        async with WireClient(master.address) as client:
            late = client.begin(RequestCode.SEND_MESSAGE, send_fields(TOPIC), b"late")
            master.tell(signal.SIGCONT)
            await aeventually(lambda: late.done() or client.is_hung_up, LONG_S, what="it answers or hangs up")
        assert not (late.done() and not late.cancelled() and late.result().code == ResponseCode.SUCCESS)
        await master_of(slave, in_sync=2)
        assert "this replica is not master any more" in master.log
        found = await bodies_at(cluster.namesrv_address)
        assert set(sender.acknowledged) <= set(found)
        assert "late" not in found


@pytest.mark.row("HA-09")
async def test_an_operator_sees_the_replicas_and_switches_the_master(tmp_path: Path) -> None:
    async with pair(tmp_path, lease_ms=UNHURRIED_MS) as (master, slave, cluster):
        shown = await admin("replicas", "-n", cluster.namesrv_address)
        assert f"master {master.address}" in shown
        assert slave.address in shown
        async with Sender(cluster.namesrv_address) as sender:
            said = await admin(
                "switchMaster", "-n", cluster.namesrv_address, "-b", "broker-a", "-t", slave.address
            )
            assert f"{slave.address} is master now, in epoch 2; it was {master.address}" in said
            await sender.more()
        assert await master_of(master, slave, in_sync=2) is slave
        assert set(sender.acknowledged) <= set(await bodies_at(cluster.namesrv_address))
        assert f"this master hands over to {slave.address}" in master.log


async def test_a_stop_in_order_of_either_replica_is_a_short_pause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with pair(tmp_path, lease_ms=UNHURRIED_MS) as (master, slave, cluster):
        async with Sender(cluster.namesrv_address) as sender:
            for one, other in ((slave, master), (master, slave)):
                one.end(signal.SIGTERM)
                await sender.more()
                await one.start()
                await master_of(other, in_sync=2)
        with capsys.disabled():
            print(f"\n  both replicas restarted in order: the sender waited {sender.longest_pause_s:.2f} s")
        assert set(sender.acknowledged) <= set(await bodies_at(cluster.namesrv_address))


async def admin(*arguments: str) -> str:
    """Run `pyromq admin`, and return what it prints."""
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "pyromq", "admin", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
