"""Clients of a torture can be killed: nothing of them goes on, and nobody is told."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from pyromq.torture.killable_clients import LivesLoop, LivingClient


def _run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=LivesLoop) as runner:
        runner.run(main())


async def _turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_client_that_ends_by_itself_is_awaited() -> None:
    done: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0)
        done.append("work")

    async def main() -> None:
        client = LivingClient("one", work)
        await client.wait()
        assert not client.is_alive

    _run(main)

    assert done == ["work"]


def test_what_a_client_raises_is_raised_to_whoever_waits() -> None:
    seen: list[str] = []

    async def fail() -> None:
        raise ValueError("no")

    async def main() -> None:
        try:
            await LivingClient("one", fail).wait()
        except ValueError as error:
            seen.append(str(error))

    _run(main)

    assert seen == ["no"]


def test_a_client_that_is_killed_does_not_clean_up_before_it_is_buried() -> None:
    said: list[str] = []

    async def child() -> None:
        try:
            while True:
                said.append("child")
                await asyncio.sleep(0)
        finally:
            said.append("child's farewell")

    async def work() -> None:
        task = asyncio.create_task(child())
        try:
            await task
        finally:
            said.append("farewell")

    async def main() -> None:
        client = LivingClient("one", work)
        await _turns()
        client.kill()
        await client.wait()
        count = len(said)
        await _turns()
        assert len(said) == count
        assert "farewell" not in said
        await client.bury()

    _run(main)

    assert said[-2:] == ["child's farewell", "farewell"]


def test_the_connections_of_a_client_that_is_killed_are_torn() -> None:
    async def main() -> None:
        ended, connected = asyncio.Event(), asyncio.Event()

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                await reader.read(100)
            writer.close()
            ended.set()

        server = await asyncio.start_server(take, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        async def work() -> None:
            await asyncio.get_running_loop().create_connection(asyncio.Protocol, "127.0.0.1", port)
            connected.set()
            await asyncio.Event().wait()

        client = LivingClient("one", work)
        await asyncio.wait_for(connected.wait(), 10)
        client.kill()
        await asyncio.wait_for(ended.wait(), 10)
        await client.bury()
        server.close()
        await server.wait_closed()

    _run(main)
