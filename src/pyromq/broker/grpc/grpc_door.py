"""RocketMQ 5's gRPC services of one broker, from its first gRPC connection on: the one door of this package.

    GrpcServer ─► GrpcTable ─► send, transaction, recall ─► RemotingWay ─► handlers of remoting
                     │          route, assignment ────────► name servers, topics
                     │          heartbeat, farewell ──────► GrpcMembers ─► groups
                     └────────► Telemetry ───────────────────┘

A client of gRPC sees the same topics, groups, accounts and messages as one of remoting. This module imports
all that serves gRPC, protobuf included; `grpc_port.py` imports it, on a thread.
"""

import socket
from collections import Counter
from importlib import import_module
from typing import TYPE_CHECKING, Final

from pyromq.broker.background import Background
from pyromq.broker.grpc.cluster_routes import ClusterRoutes
from pyromq.broker.grpc.consuming.consume_rpcs import add_consume_rpcs
from pyromq.broker.grpc.grpc_access import GrpcAccess
from pyromq.broker.grpc.grpc_addresses import GrpcAddressBook
from pyromq.broker.grpc.grpc_members import GrpcMembers
from pyromq.broker.grpc.grpc_rooms import GrpcRooms
from pyromq.broker.grpc.grpc_table import SERVICE, GrpcTable
from pyromq.broker.grpc.grpc_terms import SettingsTerms
from pyromq.broker.grpc.presence_rpcs import PresenceRpcs
from pyromq.broker.grpc.recall_rpcs import RecallRpcs
from pyromq.broker.grpc.remoting_way import RemotingWay
from pyromq.broker.grpc.route_rpcs import RouteRpcs
from pyromq.broker.grpc.send_rpcs import SendRpcs
from pyromq.broker.grpc.telemetry import TelemetryRoom
from pyromq.broker.grpc.telemetry_settings import SettingsOfClients
from pyromq.broker.grpc.transaction_rpcs import TransactionRpcs
from pyromq.kernel import IS_COMPILED
from pyromq.net.http2.grpc_calls import GrpcMethod
from pyromq.net.http2.grpc_link import GrpcLink
from pyromq.net.http2.grpc_server import GrpcServer
from pyromq.net.http2.which_session import session_class
from pyromq.net.link import Link
from pyromq.wire.grpc.grpc_codes import GrpcCode

if TYPE_CHECKING:
    from pyromq.broker.grpc.consuming.plain_acks import PlainAcks
    from pyromq.broker.grpc.plain_sends_door import PlainSendsDoor

#: Seconds between looks for clients that fell silent, and for groups that changed.
SILENT_LOOK_S = 5.0
GROUPS_LOOK_S = 1.0
#: Imported by those that use them, where there is a compiler.
_COMPILED: Final = (
    "pyromq._kernel.requests.grpc_sends",
    "pyromq._kernel.requests.shown",
    "pyromq.broker.grpc.plain_sends_door",
    "pyromq.broker.grpc.consuming.plain_acks",
)


def import_rest() -> None:
    """Import what a door imports when it is made, so that this may be done on a thread.

    Raises ConfigError or ImportError.
    """
    session_class()
    if IS_COMPILED:
        for name in _COMPILED:
            import_module(name)


class GrpcDoor:
    """The gRPC services of one broker; `serve` opens them. `book` has the addresses that SDKs are told."""

    def __init__(self, rooms: GrpcRooms, book: GrpcAddressBook) -> None:
        self._rooms = rooms
        settings = rooms.settings
        self._access = GrpcAccess(rooms.access)
        self.table = GrpcTable(self._access)
        self.table.on_refused = self._note_refusal
        self.members = GrpcMembers(
            rooms.groups,
            rooms.presence,
            rooms.clock,
            silence_ms=settings.broker.channel_expired_timeout,
            body_bytes_max=settings.store.max_message_size,
        )
        self._telemetry = TelemetryRoom(
            self._access,
            self.members,
            SettingsTerms(rooms.groups.table, rooms.filters),
            SettingsOfClients(
                settings.grpc,
                rooms.groups.table,
                settings.store.max_message_size,
                settings.grpc.grpc_client_consumer_max_long_polling_timeout_millis,
            ),
        )
        self._server = GrpcServer(
            self.table.methods,
            settings.net,
            clock=rooms.clock,
            name=f"{settings.broker.broker_name} (gRPC)",
            certificate_folder=rooms.folder,
            turn=rooms.turn,
            on_link_closed=self._link_closed,
        )
        #: The revision of the groups that clients were told of last.
        self._groups_told = -1
        #: What offers plain sends to the kernel, where it takes them.
        self.plain_sends: PlainSendsDoor | None = None
        #: The same for acknowledgements.
        self.plain_acks: PlainAcks | None = None
        self._routes = self._fill_table(book)

    @property
    def links(self) -> list[GrpcLink]:
        """The open connections."""
        return self._server.grpc_links()

    @property
    def calls(self) -> Counter[tuple[str, int]]:
        """The number of calls that were answered, by RPC and code."""
        counted = self.table.calls.copy()
        if self.plain_sends is not None:
            counted["SendMessage", GrpcCode.OK] += self.plain_sends.kernel.answered
        if self.plain_acks is not None:
            kernel = self.plain_acks.kernel
            for name, count in (("AckMessage", kernel.answered), ("ChangeInvisibleDuration", kernel.changed)):
                if count:
                    counted[name, GrpcCode.OK] += count
        return counted

    async def serve(self, listening: socket.socket) -> None:
        """Serve the connections of a socket that listens, and those that wait there."""
        await self._server.serve(listening)

    def _fill_table(self, book: GrpcAddressBook) -> ClusterRoutes:
        """Make the handlers of all RPCs; return the routes, which are to be closed."""
        rooms = self._rooms
        settings, links = rooms.settings, rooms.surroundings.links
        routes = ClusterRoutes(
            links,
            rooms.topics,
            settings.broker,
            rooms.clock,
            addresses=rooms.write.addresses,
            name_servers=rooms.surroundings.name_servers,
            book=book,
        )
        way = RemotingWay(rooms.table, rooms.write.durability, rooms.clock)
        table = self.table
        table.add(RouteRpcs(routes, book, rooms.topics, rooms.groups.table, settings).rpcs())
        table.add(PresenceRpcs(self.members, rooms.groups).rpcs())
        sends = SendRpcs(way, self.members, rooms.topics, settings, rooms.clock)
        table.add(sends.rpcs())
        self._let_kernel_send(sends)
        table.add(TransactionRpcs(way, rooms.store, rooms.halves).rpcs())
        table.add(RecallRpcs(way, rooms.topics, settings, routes=routes, links=links).rpcs())
        self.plain_acks = add_consume_rpcs(table, rooms, self.members, self._access)
        table.add_method("Telemetry", GrpcMethod(bidi=self._telemetry.open))
        return routes

    def _link_closed(self, link: Link) -> None:
        if self.plain_sends is not None:
            self.plain_sends.kernel.drop(link.peer_host_bytes)

    def _let_kernel_send(self, sends: SendRpcs) -> None:
        """Have the kernel take plain sends, where it takes those of remoting."""
        rooms = self._rooms
        unary = self.table.methods[f"{SERVICE}SendMessage"].unary
        if not IS_COMPILED or rooms.turn.shortcut is None or unary is None:
            return
        # Only now: without a compiler there is nothing to import.
        from pyromq.broker.grpc.plain_sends_door import PlainSendsDoor

        plain = self.plain_sends = PlainSendsDoor(rooms, self.table, sends, unary, self._access)
        self.table.methods[f"{SERVICE}SendMessage"] = GrpcMethod(unary=plain.send)

    def run_jobs(self, background: Background) -> None:
        """Forget silent clients, and tell clients of changed groups."""
        background.every("drop silent gRPC clients", SILENT_LOOK_S, self.members.drop_silent)
        background.every("tell gRPC clients of groups", GROUPS_LOOK_S, self.tell_groups)

    def tell_groups(self) -> None:
        """Send clients their settings again whose groups were changed."""
        revision = self._rooms.groups.table.revision
        if revision == self._groups_told:
            return
        self._groups_told = revision
        for member in self.members:
            if member.stream is not None and member.part is not None:
                member.stream.tell_settings(only_others=True)

    async def close(self) -> None:
        """Serve no more: clients are told to go elsewhere, and calls under way have a short grace."""
        await self._server.close()
        await self._routes.close()

    def _note_refusal(self) -> None:
        if self._rooms.table.on_refused is not None:
            self._rooms.table.on_refused()
