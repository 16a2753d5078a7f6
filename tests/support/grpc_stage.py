"""A server of gRPC with a service of every kind of method, on a loop of its own, and grpcio as its client."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from loop_thread import LoopThread, loop_thread

from pyromq.clock import SystemClock
from pyromq.config.settings import NetSettings
from pyromq.net.http2.grpc_calls import GrpcCall, GrpcFailed, GrpcMethod, GrpcStatus
from pyromq.net.http2.grpc_link import GrpcLink
from pyromq.net.http2.grpc_server import GrpcServer
from pyromq.net.http2.grpc_session import GrpcSession
from pyromq.net.http2.session_terms import SessionLimits

SERVICE = "/pyromq.Test/"
#: Seconds that a call may take; spent only when a test fails.
CALL_S = 30.0


class Chat:
    """Says everything twice, until its client has no more to say."""

    def __init__(self, call: GrpcCall, service: "CallService") -> None:
        self._call = call
        self._service = service
        service.chats += 1

    def message(self, data: bytes) -> None:
        if data == b"break":
            raise ValueError("a mistake")
        if data == b"refuse":
            raise GrpcFailed(GrpcStatus.INVALID_ARGUMENT, "not that")
        self._call.send(data)
        self._call.send(data.upper())

    def half_closed(self) -> None:
        self._call.send(b"bye")
        self._call.finish()

    def over(self) -> None:
        self._service.chats -= 1


@dataclass
class CallService:
    """Methods of every kind, and what came of their calls."""

    chats: int = 0
    #: Calls that are held, and how many of them ended by being cancelled.
    held: list[GrpcCall] = field(default_factory=list)
    cancelled: int = 0
    #: Messages that `Count` could send so far.
    counted: int = 0
    last: GrpcCall | None = None

    def methods(self) -> dict[str, GrpcMethod]:
        return {
            f"{SERVICE}Echo": GrpcMethod(unary=self.echo),
            f"{SERVICE}Later": GrpcMethod(unary=self.later),
            f"{SERVICE}Fail": GrpcMethod(unary=self.fail),
            f"{SERVICE}Break": GrpcMethod(unary=self.broken),
            f"{SERVICE}Big": GrpcMethod(unary=self.big),
            f"{SERVICE}Count": GrpcMethod(server_stream=self.count),
            f"{SERVICE}Hold": GrpcMethod(server_stream=self.hold),
            f"{SERVICE}Chat": GrpcMethod(bidi=lambda call: Chat(call, self)),
        }

    def echo(self, call: GrpcCall, request: bytes) -> bytes:
        self.last = call
        return request

    def later(self, call: GrpcCall, request: bytes) -> Awaitable[bytes]:
        return asyncio.sleep(0, request)

    def fail(self, call: GrpcCall, request: bytes) -> bytes:
        raise GrpcFailed(int(request), "wörks 100%\nnot")

    def broken(self, call: GrpcCall, request: bytes) -> bytes:
        raise ValueError("a mistake")

    def big(self, call: GrpcCall, request: bytes) -> bytes:
        return bytes(int(request))

    async def count(self, call: GrpcCall, request: bytes) -> None:
        """Send so many messages of so many bytes, as fast as they are taken."""
        count, size = map(int, request.split())
        for number in range(count):
            await call.room()
            call.send(number.to_bytes(4, "big").ljust(size, b"."))
            self.counted = number + 1

    async def hold(self, call: GrpcCall, request: bytes) -> None:
        """Send one message, then wait for whoever comes."""
        self.held.append(call)
        call.send(b"held")
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.held.remove(call)


@dataclass
class GrpcStage:
    """A running server and its service."""

    server: GrpcServer
    service: CallService
    port: int
    loop: LoopThread

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def links(self) -> list[GrpcLink]:
        return [link for link in tuple(self.server.links) if isinstance(link, GrpcLink)]


@contextmanager
def grpc_stage(
    folder: Path,
    settings: NetSettings | None = None,
    limits: SessionLimits | None = None,
    make_session: Callable[[SessionLimits], GrpcSession] | None = None,
) -> Iterator[GrpcStage]:
    """Run a server for the block."""
    service = CallService()

    async def start() -> tuple[GrpcServer, int]:
        server = GrpcServer(
            service.methods(),
            settings or NetSettings(),
            clock=SystemClock(),
            name="test server",
            certificate_folder=folder,
            limits=limits,
            make_session=make_session,
        )
        return server, (await server.start("127.0.0.1", 0))[1]

    with loop_thread() as loop:
        server, port = loop.run(start())
        try:
            yield GrpcStage(server, service, port, loop)
        finally:
            loop.run(server.close())


@contextmanager
def plain_channel(stage: GrpcStage, **options: Any) -> Iterator[grpc.Channel]:
    """Open a channel of grpcio without TLS, that shares its connection with no other channel."""
    named = [(f"grpc.{key}", value) for key, value in options.items()]
    with grpc.insecure_channel(stage.address, [("grpc.use_local_subchannel_pool", 1), *named]) as channel:
        yield channel


def unary(channel: grpc.Channel, name: str) -> Any:
    """Return a method with one request and one answer, both bytes."""
    return channel.unary_unary(SERVICE + name)


def stream(channel: grpc.Channel, name: str) -> Any:
    """Return a method with one request and many answers."""
    return channel.unary_stream(SERVICE + name)


def both_ways(channel: grpc.Channel, name: str) -> Any:
    """Return a method with many requests and many answers."""
    return channel.stream_stream(SERVICE + name)
