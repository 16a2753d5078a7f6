"""What systemd is told: datagrams on the socket that it names."""

import asyncio
import gc
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from pyromq.cli.servers.serve import Vitals, serve
from pyromq.cli.servers.service_manager import SystemdNotices
from pyromq.net.process_health import HealthCheck

WELL = HealthCheck("store", needs_restart=True)
#: Two looks of a watchdog with this take no time.
QUICK_US = "2000"


class Systemd:
    """The other end of NOTIFY_SOCKET."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(30)
        self.socket.bind(address)

    def hear(self) -> list[str]:
        return self.socket.recv(4096).decode().splitlines()

    def hear_until(self, line: str) -> list[list[str]]:
        heard = [self.hear()]
        while line not in heard[-1]:
            heard.append(self.hear())
        return heard


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    other = Systemd(str(tmp_path / "notify"))
    yield other
    other.socket.close()


Watching = Callable[..., SystemdNotices]


@pytest.fixture
async def closing() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


def variables(systemd: Systemd, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": systemd.socket.getsockname(), **more}


async def turns_until(systemd: Systemd, line: str) -> list[list[str]]:
    """Listen without keeping the loop from talking."""
    return await asyncio.to_thread(systemd.hear_until, line)


async def test_readiness_the_watchdog_and_the_stop_are_told(
    systemd: Systemd, closing: AsyncExitStack
) -> None:
    manager = SystemdNotices(variables(systemd, WATCHDOG_USEC=QUICK_US, WATCHDOG_PID=str(os.getpid())))
    manager.watch(lambda: [WELL], closing)
    heard = await turns_until(systemd, "EXTEND_TIMEOUT_USEC=3000")
    assert len(heard) == 1

    manager.is_ready("ready")

    assert (await turns_until(systemd, "WATCHDOG=1"))[-2:] == [["READY=1", "STATUS=ready"], ["WATCHDOG=1"]]
    manager.stops()
    heard = await turns_until(systemd, "STOPPING=1")
    # A stop may take its time, too.
    await turns_until(systemd, "EXTEND_TIMEOUT_USEC=3000")


async def test_the_watchdog_starves_while_the_store_needs_a_restart(
    systemd: Systemd, closing: AsyncExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    findings = [WELL]
    manager = SystemdNotices(variables(systemd, WATCHDOG_USEC=QUICK_US))
    manager.watch(lambda: findings, closing)
    manager.is_ready("ready")
    await turns_until(systemd, "WATCHDOG=1")

    findings[0] = HealthCheck("store", "a sync failed", needs_restart=True)
    await turns_until(systemd, "STATUS=not ready: store: a sync failed")
    assert "the watchdog is not fed" in caplog.text
    findings[0] = HealthCheck("disk", "it is full")

    heard = await turns_until(systemd, "STATUS=not ready: disk: it is full")
    # Nothing was said in between, and a full disk does not starve it.
    assert heard == [["WATCHDOG=1", "STATUS=not ready: disk: it is full"]]
    await turns_until(systemd, "WATCHDOG=1")


async def test_without_a_watchdog_none_is_fed(systemd: Systemd, closing: AsyncExitStack) -> None:
    for other in ({}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": QUICK_US, "WATCHDOG_PID": "1"}):
        assert SystemdNotices(variables(systemd, **other)).watchdog_s is None


async def test_programs_that_it_starts_are_not_the_service(systemd: Systemd) -> None:
    environment = variables(systemd, WATCHDOG_USEC=QUICK_US, HOME="/")
    SystemdNotices(environment)
    assert environment == {"HOME": "/"}


async def test_an_abstract_socket_is_understood(closing: AsyncExitStack) -> None:
    name = f"pyromq-test-{os.getpid()}"
    other = Systemd(f"\0{name}")
    closing.callback(other.socket.close)
    manager = SystemdNotices({"NOTIFY_SOCKET": f"@{name}"})
    manager.watch(lambda: [WELL], closing)
    manager.is_ready("ready")
    await turns_until(other, "READY=1")


async def test_a_service_manager_that_is_gone_harms_nothing(
    systemd: Systemd, closing: AsyncExitStack
) -> None:
    manager = SystemdNotices(variables(systemd))
    systemd.socket.close()
    manager.watch(lambda: [WELL], closing)
    manager.is_ready("ready")


async def test_what_serves_tells_it_and_ends_with_a_signal(
    systemd: Systemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", systemd.socket.getsockname())
    vitals = Vitals()

    async def start(closing: AsyncExitStack) -> Mapping[str, Any]:
        assert vitals.look() == [HealthCheck("serving", "the process starts, or stops")]
        vitals.watch(lambda: [WELL])
        return {}

    serving = asyncio.create_task(serve(start, None, vitals=vitals))
    assert (await turns_until(systemd, "READY=1"))[-1] == ["READY=1", "STATUS=ready"]
    assert vitals.look() == [WELL]
    # What the start made is not walked over by each collection.
    assert gc.get_freeze_count() > 10_000
    os.kill(os.getpid(), signal.SIGTERM)
    await serving
    assert gc.get_freeze_count() == 0

    assert (await turns_until(systemd, "STOPPING=1"))[-1][0] == "STOPPING=1"
    assert vitals.look() == [HealthCheck("serving", "the process starts, or stops")]
