"""Access to the simulated etcd: a transport for httpx, over the simulated network.

A request or an answer that meets a cut waits for its end or is lost, as the seed says. So a transaction may
be made long after its client gave up, and one that was made may look as if it was not.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx
import msgspec

from pyromq.testing.simulation.simulated_etcd import EtcdState, EtcdWatch
from pyromq.testing.simulation.simulated_machines import CURRENT, Machine, Process
from pyromq.testing.simulation.simulated_network import Network

_BEAT_S: Final = 0.25


class EtcdMember:
    """The process that etcd runs in, and who waits for its answers."""

    def __init__(self, network: Network, machine: Machine, state: EtcdState) -> None:
        self.network = network
        self.machine = machine
        self.state = state
        self.process: Process | None = None
        self._waiting: dict[asyncio.Future[Any], Process] = {}

    async def main(self) -> None:
        """Run, until somebody ends it."""
        self.process = CURRENT.get()
        self.state.restarted()
        while True:
            await asyncio.sleep(_BEAT_S)
            self.state.expire()

    @property
    def is_up(self) -> bool:
        """Whether somebody answers, if only later."""
        return self.process is not None and not self.process.is_dead

    def ended(self) -> None:
        """Tell those who wait that the connection is gone."""
        waiting, self._waiting = self._waiting, {}
        for future, process in waiting.items():
            self._tell_broken(process, future)

    def _tell_broken(self, process: Process, future: "asyncio.Future[Any]") -> None:
        def break_off() -> None:
            if not future.done():
                future.set_exception(httpx.ReadError("the connection was reset"))

        self.network.carry(self.machine, process, break_off)

    def ask(self, process: Process, path: str, body: dict[str, Any]) -> "asyncio.Future[Any]":
        """Send a request; the answer comes if it comes."""
        future: asyncio.Future[Any] = self.network.loop.create_future()
        etcd = self.process
        assert etcd is not None
        self._waiting[future] = process

        def handle() -> None:
            answer = self.state.answer(path, body)
            self._waiting.pop(future, None)
            self.network.carry(self.machine, process, lambda: _settle(future, answer))

        self.network.carry(process.machine, etcd, handle)
        return future

    def watch(self, process: Process, body: dict[str, Any], news: "asyncio.Queue[int | None]") -> "_Watching":
        """Begin a watch; `news` gets a revision for each change, None when the connection is gone."""
        etcd = self.process
        assert etcd is not None
        watching = _Watching(self)

        def tell(revision: int) -> None:
            self.network.carry(self.machine, process, lambda: news.put_nowait(revision))

        def handle() -> None:
            watching.watch = self.state.watch(body, tell)

        self.network.carry(process.machine, etcd, handle)
        return watching


def _settle(future: "asyncio.Future[Any]", answer: Any) -> None:
    if not future.done():
        future.set_result(answer)


class _Watching:
    """A watch that can be ended."""

    def __init__(self, member: EtcdMember) -> None:
        self._member = member
        self.watch: EtcdWatch | None = None

    def end(self) -> None:
        watches = self._member.state.watches
        if self.watch in watches:
            watches.remove(self.watch)


class EtcdTransport(httpx.AsyncBaseTransport):
    """Carries the requests of one replica's client."""

    def __init__(self, member: EtcdMember) -> None:
        self._member = member
        self._is_connected = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, and return its answer or raise what httpx raises."""
        member, process = self._member, CURRENT.get()
        assert process is not None
        timeouts = request.extensions["timeout"]
        body = msgspec.json.decode(await request.aread())
        await self._connect(process, timeouts["connect"])
        path = request.url.path.removeprefix("/v3/")
        if path == "watch":
            news: asyncio.Queue[int | None] = asyncio.Queue()
            watching = member.watch(process, body, news)
            return httpx.Response(200, stream=_News(member, news, watching, timeouts["read"]))
        try:
            async with asyncio.timeout(timeouts["read"]):
                answer = await member.ask(process, path, body)
        except TimeoutError as error:
            self._is_connected = False
            raise httpx.ReadTimeout("no answer in time") from error
        except httpx.ReadError:
            self._is_connected = False
            raise
        return httpx.Response(200, content=msgspec.json.encode(answer))

    async def _connect(self, process: Process, timeout_s: float) -> None:
        member, network = self._member, self._member.network
        if self._is_connected and member.is_up:
            return
        self._is_connected = False
        await asyncio.sleep(network.chance.uniform(*network.delay_s))
        if network.is_cut(process.machine, member.machine) or network.is_cut(member.machine, process.machine):
            await asyncio.sleep(timeout_s)
            raise httpx.ConnectTimeout("no connection in time")
        if not member.is_up:
            raise httpx.ConnectError("connection refused")
        self._is_connected = True


class _News(httpx.AsyncByteStream):
    """The lines of a watch."""

    def __init__(
        self, member: EtcdMember, news: "asyncio.Queue[int | None]", watching: _Watching, silent_s: float
    ) -> None:
        self._member = member
        self._news = news
        self._watching = watching
        self._silent_s = silent_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        etcd = self._member.process
        yield b'{"result":{"created":true}}\n'
        silent_s = 0.0
        while True:
            try:
                async with asyncio.timeout(1.0):
                    await self._news.get()
            except TimeoutError:
                silent_s += 1.0
                if etcd is None or etcd.is_dead:
                    raise httpx.ReadError("the connection was reset") from None
                if silent_s >= self._silent_s:
                    raise httpx.ReadTimeout("nothing came") from None
                continue
            silent_s = 0.0
            yield b'{"result":{"events":[{}]}}\n'

    async def aclose(self) -> None:
        self._watching.end()
