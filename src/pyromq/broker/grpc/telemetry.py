"""Telemetry: settings in both directions, and the broker's commands to its clients.

    settings of a client ──► checked ─► the client is in its groups ─► settings, merged, with status OK
    a bad client id, a bad account ───► one command with only a status, and the end
    settings that are wrong ──────────► the end with INVALID_ARGUMENT

One stream of a client is the newest; commands go there. An older one stays open and is silent, and so is the
stream of a client that said farewell. What a stream says is advice, not a session: whatever else a client
calls works without it.
"""

import asyncio
import logging
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from pyromq.broker.grpc.grpc_access import GrpcAccess
from pyromq.broker.grpc.grpc_callers import GrpcCaller, caller_of, client_id_of
from pyromq.broker.grpc.grpc_members import GrpcMember, GrpcMembers
from pyromq.broker.grpc.grpc_needs import need_of_telemetry
from pyromq.broker.grpc.grpc_table import OK_STATUS
from pyromq.broker.grpc.grpc_terms import SettingsTerms
from pyromq.broker.grpc.telemetry_settings import SettingsOfClients
from pyromq.net.http2.grpc_calls import GrpcCall, GrpcFailed, GrpcStatus
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_codes import GrpcRefused

#: Node's SDK misses its first settings when it has two or more topics; it is told them again.
TELL_NODE_AGAIN_S: Final = 2.0
#: What is kept of the settings that a client was told.
DIGEST_BYTES: Final = 16
_PREFIX: Final = "process client telemetryCommand failed. "

_log = logging.getLogger("pyromq.grpc")


@dataclass(frozen=True, slots=True)
class TelemetryRoom:
    """The rooms that the streams of all clients need."""

    access: GrpcAccess
    members: GrpcMembers
    terms: SettingsTerms
    settings: SettingsOfClients

    def open(self, call: GrpcCall) -> "TelemetryStream":
        """Begin a stream."""
        return TelemetryStream(self, call)


class TelemetryStream:
    """One client's stream."""

    __slots__ = ("_again", "_call", "_is_node", "_member", "_room", "_told", "_told_config")

    def __init__(self, room: TelemetryRoom, call: GrpcCall) -> None:
        self._room = room
        self._call = call
        self._member: GrpcMember | None = None
        self._again: asyncio.TimerHandle | None = None
        #: A digest of the settings that were told last, to see whether others are to be told.
        self._told: bytes | None = None
        self._told_config: SubscriptionGroupConfig | None = None
        self._is_node = False

    # What the transport calls

    def message(self, data: bytes) -> None:
        """Take a command of the client."""
        try:
            command = pb.TelemetryCommand.FromString(data)
        except pb.DecodeError as error:
            raise GrpcFailed(GrpcStatus.INTERNAL, f"the bytes are no TelemetryCommand: {error}") from error
        call = self._call
        try:
            client_id = client_id_of(call)
            account = self._room.access.admit(call, need_of_telemetry(command))
        except GrpcRefused as refused:
            status = pb.Status(code=refused.code, message=refused.text)
            call.send(pb.TelemetryCommand(status=status).SerializeToString())
            call.finish()
            return
        caller = caller_of(call, client_id, account)
        kind = command.WhichOneof("command")
        if kind == "settings":
            self._take_settings(caller, command.settings)
        elif kind in ("thread_stack_trace", "verify_message_result"):
            self._take_answer(caller, command, getattr(command, kind).nonce)

    def half_closed(self) -> None:
        """End the stream as the client does; its settings stay."""
        self._call.finish()

    def over(self) -> None:
        """Let the client go on without a stream."""
        if self._again is not None:
            self._again.cancel()
        if self._member is not None and self._member.stream is self:
            self._member.stream = None

    # What the broker says

    def tell(self, command: pb.TelemetryCommand) -> None:
        """Send a command to the client."""
        self._call.send(command.SerializeToString())

    def tell_settings(self, *, only_others: bool = False) -> None:
        """Send the client its settings as they are now; with `only_others` only if they changed."""
        member = self._member
        if member is None or member.stream is not self:
            return
        said = member.settings
        if said is None:
            return
        config = self._room.settings.config_of(said)
        if only_others and config is self._told_config:
            # Of thousands of clients few are in the group that changed.
            return
        settings = self._room.settings.merged(said, is_node=self._is_node)
        self._told_config = config
        told = blake2b(settings.SerializeToString(), digest_size=DIGEST_BYTES).digest()
        if only_others and told == self._told:
            return
        self._told = told
        self.tell(pb.TelemetryCommand(status=OK_STATUS, settings=settings))

    # Inside

    def _take_settings(self, caller: GrpcCaller, settings: pb.Settings) -> None:
        terms, members = self._room.terms, self._room.members
        try:
            terms.check(settings)
        except GrpcRefused as refused:
            raise GrpcFailed(GrpcStatus.INVALID_ARGUMENT, f"{_PREFIX}{refused.text}") from refused
        member = self._member = members.seen(caller)
        members.keep_settings(member, settings)
        member.stream = self
        self._is_node = caller.is_node
        if settings.WhichOneof("pub_sub") == "publishing":
            members.produce(member, [topic.name for topic in settings.publishing.topics])
        else:
            members.consume(member, terms.part_of(settings))
        is_first = self._told is None
        self.tell_settings()
        if is_first and caller.is_node:
            loop = asyncio.get_running_loop()
            self._again = loop.call_later(TELL_NODE_AGAIN_S, self.tell_settings)

    def _take_answer(self, caller: GrpcCaller, command: pb.TelemetryCommand, nonce: str) -> None:
        member = self._room.members.get(caller.client_id)
        if member is not None and member is self._member:
            member.answered(nonce, command)
