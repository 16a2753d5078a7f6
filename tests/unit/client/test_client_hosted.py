"""A loop on a thread, for blocking faces."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from pyromq.client.sync.hosted import HostedLoop
from pyromq.errors import AlreadyStarted, ClientClosed


async def thread_name() -> str:
    return threading.current_thread().name


@pytest.fixture
def host():
    host = HostedLoop("consumer billing")
    host.start()
    yield host
    host.close()


def test_coroutines_run_on_the_thread_of_the_client(host: HostedLoop) -> None:
    assert host.run(thread_name()) == "pyromq-consumer billing"
    assert host.submit(thread_name()).result(10) == "pyromq-consumer billing"


def test_what_a_coroutine_raises_is_raised(host: HostedLoop) -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        host.run(fail())


def test_a_call_may_have_its_time(host: HostedLoop) -> None:
    with pytest.raises(TimeoutError):
        host.run(asyncio.Event().wait(), timeout_s=0.01)


def test_a_call_from_its_own_thread_would_wait_for_itself(host: HostedLoop) -> None:
    async def calls_back() -> str:
        return host.run(thread_name())

    with pytest.raises(RuntimeError, match=r"use pyromq\.aio"):
        host.run(calls_back())


def test_it_is_started_once(host: HostedLoop) -> None:
    with pytest.raises(AlreadyStarted):
        host.start()


def test_before_the_start_it_says_how_to_start() -> None:
    with pytest.raises(ClientClosed, match=r"call start\(\)"):
        HostedLoop("consumer billing").run(thread_name())


def test_after_the_end_it_says_so_and_ends_what_was_left(host: HostedLoop) -> None:
    is_begun, ended = threading.Event(), []

    async def wait() -> None:
        is_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(threading.current_thread().name)

    host.submit(wait())
    assert is_begun.wait(10)
    host.close()
    host.close()

    assert ended == ["pyromq-consumer billing"]
    assert not host.is_running
    with pytest.raises(ClientClosed, match="make a new one"):
        host.run(thread_name())
    with pytest.raises(ClientClosed):
        host.start()
    host.call_soon(lambda: None)


def test_whoever_waits_for_a_loop_that_is_closed_is_told_so(host: HostedLoop) -> None:
    is_begun = threading.Event()

    async def wait() -> None:
        is_begun.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(host.run, wait())
        assert is_begun.wait(10)
        host.close()

        with pytest.raises(ClientClosed, match="make a new one"):
            waiting.result(10)


def test_a_call_beside_the_closing_ends_or_is_told_so_but_never_waits_for_ever(
    host: HostedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing = threading.Thread(target=host.close)
    begin = asyncio.run_coroutine_threadsafe

    def begin_late(coroutine: Coroutine[Any, Any, str], loop: asyncio.AbstractEventLoop) -> "Future[str]":
        # As far as it gets, which must not be to the end: a loop that is over takes nothing.
        closing.start()
        closing.join(0.05)
        return begin(coroutine, loop)

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", begin_late)
    with suppress(ClientClosed):
        assert host.run(thread_name(), timeout_s=10) == "pyromq-consumer billing"
    closing.join(10)
    assert not closing.is_alive()


def test_a_signal_that_closes_it_in_the_middle_of_a_call_does_not_wait_for_that_call(
    host: HostedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = asyncio.run_coroutine_threadsafe

    def begin_interrupted(
        coroutine: Coroutine[Any, Any, str], loop: asyncio.AbstractEventLoop
    ) -> "Future[str]":
        # What the handler of a signal does, which Python calls on the thread that it finds at work.
        host.close()
        return begin(coroutine, loop)

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", begin_interrupted)
    with pytest.raises(ClientClosed):
        host.run(thread_name(), timeout_s=10)
