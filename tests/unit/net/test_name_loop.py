"""Names that nobody answers for: they hold up neither other names nor other threads."""

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pyromq.net.loop import NameLoop
from pyromq.testing.waiting import aeventually

THERE = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 1))]
#: More than the threads that all blocking work shares.
MANY = 50


class Names:
    """A server of names that says nothing about `gone` until it is let."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers = threading.Event()

    def look_up(self, host: str, *_: Any) -> Any:
        self.asked.append(host)
        if host == "there":
            return THERE
        self.answers.wait(60)
        raise socket.gaierror(-2, "Name or service not known")


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    names = Names()
    monkeypatch.setattr(socket, "getaddrinfo", names.look_up)
    yield names
    names.answers.set()


def run(main: Any) -> None:
    with asyncio.Runner(loop_factory=NameLoop) as runner:
        runner.run(main)


def test_a_name_without_an_answer_is_looked_up_once_and_holds_nothing_up(
    names: Names, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        waiting = [
            asyncio.create_task(loop.create_connection(asyncio.Protocol, "gone", 1)) for _ in range(MANY)
        ]
        await aeventually(lambda: "gone" in names.asked)
        async with asyncio.timeout(30):
            assert await loop.getaddrinfo("there", 1) == THERE
            assert await asyncio.to_thread(lambda: 7) == 7
        assert names.asked.count("gone") == 1

        for task in waiting[1:]:
            task.cancel()
        names.answers.set()
        ends = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(ends[0], socket.gaierror)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends[1:])
        # What ended is asked anew.
        with pytest.raises(socket.gaierror):
            await loop.getaddrinfo("gone", 1)

    with caplog.at_level(logging.ERROR, "asyncio"):
        run(main())
    assert caplog.text == ""


def test_a_lookup_that_nobody_waits_for_any_more_is_no_error_and_holds_up_no_end(
    names: Names, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.get_running_loop().getaddrinfo("gone", 1)

    with caplog.at_level(logging.ERROR, "asyncio"):
        run(main())
    assert caplog.text == ""
    assert not names.answers.is_set()
