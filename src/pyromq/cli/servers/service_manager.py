"""Tells a service manager how the process is: systemd's datagrams, to the socket that NOTIFY_SOCKET names.

    it starts     EXTEND_TIMEOUT_USEC, again and again: a long recovery is no failed start
    it is ready   READY=1
    it serves     STATUS, when it changes; WATCHDOG=1, at half of WATCHDOG_USEC, while the process lives
    it stops      STOPPING=1

The watchdog is fed on the loop, so it starves when the loop stands still, and when the store needs a restart.
See https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Final

from pyromq.net.process_health import HealthCheck, first_cause

log = logging.getLogger(__name__)

#: Most seconds between two looks at the process.
LOOK_S_MAX: Final = 10.0
#: What a start asks for with each look, in times the pause between two.
EXTENSION: Final = 3
VARIABLES: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")

Look = Callable[[], Sequence[HealthCheck]]


class SystemdNotices:
    """Tells the service manager of this process, if it has one."""

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        # Taken out: processes that this one starts are not the service.
        address, microseconds, pid = (environment.pop(name, "") for name in VARIABLES)
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._socket: socket.socket | None = None
        #: Seconds without a word after which it kills the process; None if it does not.
        self.watchdog_s: float | None = None
        if microseconds.isdecimal() and int(microseconds) and pid in ("", str(os.getpid())):
            self.watchdog_s = int(microseconds) / 1_000_000
        self._is_ready = False
        self._status = ""
        self._ailing: str | None = None

    def watch(self, look: Look, closing: AsyncExitStack) -> None:
        """Tell it how the process is from now on, until `closing` is; without one do nothing."""
        if not self._address:
            return
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        closing.callback(self._socket.close)
        looking = asyncio.create_task(self._look_again(look), name="tell the service manager")
        closing.push_async_callback(_cancel, looking)

    def is_ready(self, status: str) -> None:
        """Tell that the servers are started."""
        self._is_ready = True
        self._status = status
        self._tell("READY=1", f"STATUS={status}")

    def stops(self) -> None:
        """Tell that the servers are being stopped."""
        self._is_ready = False
        self._tell("STOPPING=1", "STATUS=it stops")

    async def _look_again(self, look: Look) -> None:
        pause_s = LOOK_S_MAX if self.watchdog_s is None else min(self.watchdog_s / 2, LOOK_S_MAX)
        while True:
            if self._is_ready:
                self._tell_findings(look())
            else:
                self._tell(f"EXTEND_TIMEOUT_USEC={round(EXTENSION * pause_s * 1_000_000)}")
            await asyncio.sleep(pause_s)

    def _tell_findings(self, findings: Sequence[HealthCheck]) -> None:
        lines = []
        ailing = first_cause(one for one in findings if one.needs_restart)
        if self.watchdog_s is not None:
            if ailing is None:
                lines.append("WATCHDOG=1")
            elif ailing != self._ailing:
                log.critical("the watchdog is not fed, so that the service is started again: %s", ailing)
        self._ailing = ailing
        cause = first_cause(findings)
        status = "ready" if cause is None else f"not ready: {cause}"
        if status != self._status:
            self._status = status
            lines.append(f"STATUS={status}")
        if lines:
            self._tell(*lines)

    def _tell(self, *lines: str) -> None:
        if self._socket is not None:
            # It may be gone, or busy; it is told again, and has a timeout of its own.
            with suppress(OSError):
                self._socket.sendto("\n".join(lines).replace("\0", " ").encode(), self._address)


async def _cancel(looking: "asyncio.Task[None]") -> None:
    looking.cancel()
    with suppress(asyncio.CancelledError):
        await looking
