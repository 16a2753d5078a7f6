"""The health of a process, for load balancers, Kubernetes and systemd: does it live, is it ready.

    live     the loop answers, and nothing is broken that only a restart mends
    ready    it serves, and does all that it promises: each check says why not

Parts of the process (a broker, a name server) find out how they are, on the loop; the pages are asked on a
thread, so a loop that stands still is an answer too.
"""

import asyncio
import concurrent.futures
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyromq.net.status_server import Page

#: Seconds that the loop has to answer.
LOOP_S_MAX: Final = 5.0
LIVE: Final = "/health/live"
READY: Final = "/health/ready"
#: The names that Kubernetes made known.
LIVE_PATHS: Final = (LIVE, "/livez", "/healthz")
READY_PATHS: Final = (READY, "/readyz")


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """One check: its name, and why it fails, None if it does not.

    One that fails and `needs_restart` says that the process does not live.
    """

    name: str
    why: str | None = None
    needs_restart: bool = False


#: Finds out how a part of the process is; called on the loop, and quick.
HealthChecks = Callable[[], Iterable[HealthCheck]]


class ProcessHealth:
    """The health of the process or of a part of it; built on its loop."""

    def __init__(self, find: HealthChecks, *, loop_s_max: float = LOOP_S_MAX) -> None:
        self._find = find
        self._loop = asyncio.get_running_loop()
        self._loop_s_max = loop_s_max

    def pages(self) -> dict[str, Page]:
        """Return the pages by their paths."""

        def live(environ: Mapping[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
            return _answer(live_report(self.ask()), start_response)

        def ready(environ: Mapping[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
            return _answer(ready_report(self.ask()), start_response)

        return dict.fromkeys(LIVE_PATHS, live) | dict.fromkeys(READY_PATHS, ready)

    def look(self) -> list[HealthCheck]:
        """Return what is found, on the loop."""
        return [HealthCheck("loop", needs_restart=True), *self._find()]

    def ask(self) -> list[HealthCheck]:
        """Return what is found, on another thread; the loop has some seconds to answer."""
        looking = _called(self.look)
        try:
            asked = asyncio.run_coroutine_threadsafe(looking, self._loop)
        except RuntimeError:
            looking.close()
            return [HealthCheck("loop", "the process has stopped", needs_restart=True)]
        try:
            return asked.result(self._loop_s_max)
        except (TimeoutError, concurrent.futures.CancelledError):
            asked.cancel()
            why = f"the process does not answer: its loop has stood still for {self._loop_s_max:g} s"
            return [HealthCheck("loop", why, needs_restart=True)]


def first_cause(findings: Iterable[HealthCheck]) -> str | None:
    """Return why the process is not ready, None if it is."""
    return next((f"{one.name}: {one.why}" for one in findings if one.why is not None), None)


async def _called(look: Callable[[], list[HealthCheck]]) -> list[HealthCheck]:
    return look()


def live_report(findings: Iterable[HealthCheck]) -> tuple[bool, bytes]:
    """Return whether the process lives, and the page's JSON."""
    return _report("live", [one for one in findings if one.needs_restart])


def ready_report(findings: Iterable[HealthCheck]) -> tuple[bool, bytes]:
    """Return whether the process is ready, and the page's JSON."""
    return _report("ready", list(findings))


def _report(name: str, findings: Sequence[HealthCheck]) -> tuple[bool, bytes]:
    # Only now: most servers are never asked.
    import json

    is_well = all(one.why is None for one in findings)
    checks = {
        one.name: {"ok": True} if one.why is None else {"ok": False, "why": one.why} for one in findings
    }
    return is_well, json.dumps({name: is_well, "checks": checks}, ensure_ascii=False).encode() + b"\n"


def _answer(report: tuple[bool, bytes], start_response: Callable[..., Any]) -> list[bytes]:
    is_well, text = report
    head = [
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(text))),
        ("Cache-Control", "no-store"),
    ]
    start_response("200 OK" if is_well else "503 Service Unavailable", head)
    return [text]
