"""The pages of health and their server: what is found, and a loop that stands still."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from http_answers import fetch

from pyromq.errors import ListenFailed
from pyromq.net.process_health import HealthCheck, ProcessHealth, first_cause
from pyromq.net.status_server import LOOPBACK, StatusServer

WELL = HealthCheck("disk")
FULL = HealthCheck("disk", "it is full")
BROKEN = HealthCheck("store", "a sync failed", needs_restart=True)


class Pages:
    """A server of health pages, and what its process finds."""

    def __init__(self) -> None:
        self.findings: list[HealthCheck] = [WELL]
        self.health = ProcessHealth(lambda: self.findings, loop_s_max=0.2)
        self.server = StatusServer(self.health.pages())

    async def ask(self, path: str, method: str = "GET") -> tuple[int, Any]:
        status, body = await asyncio.to_thread(fetch, self.server.url + path, method)
        return status, json.loads(body) if body.startswith("{") else body


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    pages = Pages()
    await pages.server.start(LOOPBACK, 0, what="health", settings="healthPort")
    yield pages
    await pages.server.close()


@pytest.mark.parametrize("path", ["/health/ready", "/readyz"])
async def test_ready_has_each_check(pages: Pages, path: str) -> None:
    assert await pages.ask(path) == (
        200,
        {"ready": True, "checks": {"loop": {"ok": True}, "disk": {"ok": True}}},
    )
    pages.findings = [WELL, HealthCheck("lease", "it is over")]

    status, said = await pages.ask(path)

    assert (status, said["ready"]) == (503, False)
    assert said["checks"]["lease"] == {"ok": False, "why": "it is over"}
    assert said["checks"]["disk"] == {"ok": True}


@pytest.mark.parametrize("path", ["/health/live", "/livez", "/healthz"])
async def test_it_lives_until_only_a_restart_helps(pages: Pages, path: str) -> None:
    pages.findings = [FULL]
    assert await pages.ask(path) == (200, {"live": True, "checks": {"loop": {"ok": True}}})
    pages.findings = [WELL, BROKEN]

    status, said = await pages.ask(path)

    assert (status, said["live"]) == (503, False)
    assert said["checks"]["store"]["why"] == "a sync failed"


async def test_a_loop_that_stands_still_does_not_live(pages: Pages) -> None:
    answers: list[tuple[int, str]] = []
    asked = threading.Thread(target=lambda: answers.append(fetch(pages.server.url + "/health/live")))
    asked.start()

    # The loop is in here, and so it stands still.
    asked.join(30)

    [(status, text)] = answers
    assert status == 503
    assert "has stood still for 0.2 s" in json.loads(text)["checks"]["loop"]["why"]
    assert (await pages.ask("/health/live"))[0] == 200


async def test_a_loop_that_has_stopped_does_not_live() -> None:
    loop = asyncio.new_event_loop()

    async def made() -> ProcessHealth:
        return ProcessHealth(tuple)

    health = await asyncio.to_thread(loop.run_until_complete, made())
    loop.close()

    assert first_cause(await asyncio.to_thread(health.ask)) == "loop: the process has stopped"


async def test_other_paths_and_methods_are_told_apart(pages: Pages) -> None:
    status, text = await pages.ask("/health")
    assert status == 404
    assert "/health/live /health/ready" in text
    assert (await pages.ask("/health/ready", "POST"))[0] == 405
    assert await pages.ask("/health/ready", "HEAD") == (200, "")


async def test_a_port_that_is_taken_names_the_settings(pages: Pages) -> None:
    with pytest.raises(
        ListenFailed, match=r"health cannot be served on .*: .* in use; choose another healthPort"
    ):
        await StatusServer({}).start(LOOPBACK, pages.server.port, what="health", settings="healthPort")
