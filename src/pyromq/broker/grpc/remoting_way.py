"""The way of a gRPC request through the handlers of remoting, so that both protocols do the same.

A send, the end of a transaction and a recall are one request of remoting each, made here without its bytes:
it passes the same pressure, the same guards (lease, replicas, slaves) and the same handler, and its answer is
as safe when it comes.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, cast

from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.grpc.grpc_callers import GrpcCaller
from pyromq.broker.requests.route_facts import BrokerTable
from pyromq.clock import Clock
from pyromq.net.link import Link
from pyromq.net.routes import Answer, Request
from pyromq.wire.command import Command
from pyromq.wire.header import Header


@dataclass(frozen=True, slots=True)
class CallersPlace:
    """The origin of a request, and since when it waits, as handlers of remoting look at a link."""

    peer: str
    peer_host_bytes: bytes
    waits_since: float
    read_at: float


class RemotingWay:
    """Hands requests to the table of remoting."""

    def __init__(self, table: BrokerTable, durability: Durability, clock: Clock) -> None:
        self._table = table
        self._durability = durability
        self._monotonic = clock.monotonic

    def ask(
        self, code: int, header: Header, caller: GrpcCaller, *, body: bytes = b"", version: int = 0
    ) -> Answer | Awaitable[Answer]:
        """Return the answer of a code's handler, or what gives it later; raises what the handler does."""
        route = self._table.by_code[code]
        now = self._monotonic()
        link = cast(Link, CallersPlace(caller.peer, caller.peer_host_bytes, now, now))
        command = Command(code, body=body, version=version)
        refusal = self._durability.refuse(link, command)
        if refusal is not None:
            return refusal
        request: Request[Any] = Request(command, header, link, caller.account)
        for guard in route.guards:
            guard(request)
        handled = route.handle(request)
        if isinstance(handled, Answer):
            return handled
        assert handled is not None, "only oneway requests have no answer"
        answered = asyncio.ensure_future(handled)
        self._durability.waits(code, answered)
        return cast("asyncio.Future[Answer]", answered)
