"""The gRPC clients of a broker: each is a member of its groups, as a connection of remoting is of its own.

A client is known by its id, from its settings, its heartbeats and its receives; it is gone when it says so,
or when none of them came for `channelExpiredTimeout`. A stream that breaks is no end: SDKs heartbeat, receive
and send meanwhile as if nothing had happened.

What the broker asks members by remoting, a gRPC client is asked by Telemetry: `GrpcMember` has the face of a
link for that. What the protocol has no command for is not sent.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from pyromq.broker.groups.clients import ClientChannel
from pyromq.broker.groups.group_room import Groups
from pyromq.broker.grpc.grpc_callers import GRPC_CLIENT_VERSION, GrpcCaller
from pyromq.broker.grpc.member_commands import (
    orphan_command,
    print_stack_command,
    stack_answer,
    verify_answer,
    verify_command,
)
from pyromq.broker.requests.handlers.presence_handlers import PresenceHandlers
from pyromq.clock import Clock
from pyromq.codes import RequestCode
from pyromq.errors import ConnectionLost, RequestTimeout
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart, ConsumeType
from pyromq.wire.command import Command
from pyromq.wire.grpc import grpc_messages as pb

#: Clients whose ids are kept at most; the one that was silent longest goes for one more.
CLIENTS_MAX: Final = 100_000
#: Bytes of the settings of all clients; for more, those go that were silent longest.
ALL_SETTINGS_BYTES_MAX: Final = 64 * 1024 * 1024
#: Topics that one client is a producer of.
TOPICS_MAX: Final = 10_000
#: RocketMQ's request timeout, for clients that did not say theirs.
REQUEST_TIMEOUT_MS: Final = 3_000
#: Commands that a client was sent and did not answer yet.
UNANSWERED_MAX: Final = 100


class CommandStream(Protocol):
    """A Telemetry stream, as whoever has something to tell its client sees it."""

    def tell(self, command: pb.TelemetryCommand) -> None:
        """Send a command."""
        ...

    def tell_settings(self, *, only_others: bool = False) -> None:
        """Send the settings as they are now; with `only_others` only if they changed."""
        ...


class GrpcMember:
    """One client. It is in the tables of groups where a link of remoting would be.

    Ten thousand may be idle, so what most of them never need is not made, and their settings stay bytes.
    """

    __slots__ = (
        "_body_bytes_max",
        "_nonce",
        "_settings",
        "_unanswered",
        "caller",
        "client_id",
        "is_part_guessed",
        "on_close",
        "part",
        "peer",
        "request_timeout_ms",
        "seen_at_ms",
        "stream",
        "topics",
    )

    def __init__(self, caller: GrpcCaller, body_bytes_max: int) -> None:
        self.client_id = caller.client_id
        self.caller = caller
        self.peer = caller.peer
        self.seen_at_ms = 0
        #: The newest settings that it sent, None: none are known; and what they say of its patience.
        self._settings: bytes | None = None
        self.request_timeout_ms = REQUEST_TIMEOUT_MS
        #: Its newest Telemetry stream, while it is open.
        self.stream: CommandStream | None = None
        #: The consumer group that it is in, with its subscriptions.
        self.part: ConsumerPart | None = None
        #: Whether its subscriptions are only its group's: its own come with its settings.
        self.is_part_guessed = False
        self.topics: tuple[str, ...] = ()
        self.on_close: Callable[[GrpcMember], None] = lambda _: None
        self._body_bytes_max = body_bytes_max
        self._nonce = 0
        #: None: it was never asked anything.
        self._unanswered: dict[str, asyncio.Future[pb.TelemetryCommand]] | None = None

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent to it now."""
        return self.stream is None

    @property
    def settings(self) -> pb.Settings | None:
        """The newest settings that it sent, None if this process knows none."""
        return None if self._settings is None else pb.Settings.FromString(self._settings)

    @property
    def settings_bytes(self) -> int:
        """The size of these settings."""
        return 0 if self._settings is None else len(self._settings)

    def keep(self, settings: pb.Settings | None) -> None:
        """Keep settings in place of what it said before; None: forget them."""
        self._settings = None if settings is None else settings.SerializeToString()
        self.request_timeout_ms = REQUEST_TIMEOUT_MS
        if settings is not None and settings.HasField("request_timeout"):
            self.request_timeout_ms = settings.request_timeout.ToMilliseconds()

    def oneway(self, command: Command) -> None:
        """Send what a command of remoting says, if gRPC's clients can be told it."""
        if command.code != RequestCode.CHECK_TRANSACTION_STATE or self.stream is None:
            return
        told = orphan_command(command, self._body_bytes_max)
        if told is not None:
            self.stream.tell(told)

    async def request(self, command: Command, timeout_s: float) -> Command:
        """Ask what a request of remoting asks, and return the answer.

        Raises ConnectionLost for a client without a stream, or a request that gRPC does not have, and
        RequestTimeout.
        """
        self._nonce += 1
        nonce = str(self._nonce)
        if command.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            asked = print_stack_command(nonce)
        elif command.code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
            asked = verify_command(nonce, command, self._body_bytes_max)
        else:
            raise ConnectionLost(
                f"{self.client_id} speaks gRPC, and cannot be asked this (code {command.code})"
            )
        answered = await self._ask(nonce, asked, timeout_s)
        if command.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            return stack_answer(answered, self.part)
        return verify_answer(answered)

    async def _ask(self, nonce: str, asked: pb.TelemetryCommand, timeout_s: float) -> pb.TelemetryCommand:
        stream = self.stream
        if stream is None:
            raise ConnectionLost(
                f"{self.client_id} has no Telemetry stream at the moment; it will open one again"
            )
        if self._unanswered is None:
            self._unanswered = {}
        if len(self._unanswered) >= UNANSWERED_MAX:
            raise RequestTimeout(f"{self.client_id} has {UNANSWERED_MAX} commands to answer already")
        answer: asyncio.Future[pb.TelemetryCommand] = asyncio.get_running_loop().create_future()
        self._unanswered[nonce] = answer
        stream.tell(asked)
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError as error:
            raise RequestTimeout(f"{self.client_id} did not answer within {timeout_s:.1f} s") from error
        finally:
            self._unanswered.pop(nonce, None)

    def answered(self, nonce: str, command: pb.TelemetryCommand) -> None:
        """Take the answer to a command; one that nobody waits for is dropped."""
        answer = None if self._unanswered is None else self._unanswered.get(nonce)
        if answer is not None and not answer.done():
            answer.set_result(command)

    def close(self) -> None:
        """Take it out of all groups."""
        self.on_close(self)


class GrpcMembers:
    """All gRPC clients of one broker."""

    def __init__(
        self,
        groups: Groups,
        presence: PresenceHandlers,
        clock: Clock,
        *,
        silence_ms: int,
        body_bytes_max: int,
    ) -> None:
        self._groups = groups
        self._presence = presence
        self._clock = clock
        self._silence_ms = silence_ms
        self._body_bytes_max = body_bytes_max
        #: By client id, whoever was silent longest first.
        self._members: dict[str, GrpcMember] = {}
        self._settings_bytes = 0
        #: One for all of them.
        self._on_close = self.forget
        #: Told of a consumer that is gone: its id and its group.
        self.on_left: Callable[[str, str], None] = lambda _client_id, _group: None

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[GrpcMember]:
        return iter(tuple(self._members.values()))

    def get(self, client_id: str) -> GrpcMember | None:
        """Return a client that is known."""
        return self._members.get(client_id)

    def seen(self, caller: GrpcCaller) -> GrpcMember:
        """Return the client that makes a call, which shows that it is alive."""
        member = self._members.pop(caller.client_id, None)
        if member is None:
            if len(self._members) >= CLIENTS_MAX:
                self.forget(next(iter(self._members.values())))
            member = GrpcMember(caller, self._body_bytes_max)
            member.on_close = self._on_close
        self._members[caller.client_id] = member
        member.caller, member.peer = caller, caller.peer
        member.seen_at_ms = self._clock.now_ms()
        return member

    def keep_settings(self, member: GrpcMember, settings: pb.Settings) -> None:
        """Keep what a client says of itself, in place of what it said before."""
        self._settings_bytes -= member.settings_bytes
        member.keep(settings)
        self._settings_bytes += member.settings_bytes
        while self._settings_bytes > ALL_SETTINGS_BYTES_MAX and len(self._members) > 1:
            self.forget(next(iter(self._members.values())))

    def is_alive(self, client_id: str) -> bool:
        """Return whether a client was heard of within the time that it may be silent."""
        member = self._members.get(client_id)
        return member is not None and self._clock.now_ms() - member.seen_at_ms <= self._silence_ms

    def produce(self, member: GrpcMember, topics: Iterable[str]) -> None:
        """Make a client a producer of the groups that are called as topics: it is asked about orphans."""
        channel = self._channel(member)
        known = dict.fromkeys(member.topics)
        for topic in topics:
            if topic not in known and len(known) >= TOPICS_MAX:
                break
            known[topic] = None
            self._groups.producers.register(channel, topic)
        if len(known) != len(member.topics):
            member.topics = tuple(known)

    def consume(self, member: GrpcMember, part: ConsumerPart) -> None:
        """Make a client a member of a consumer group; it leaves another one that it was in before."""
        if member.part is not None and member.part.group_name != part.group_name:
            self._presence.leave(member.part.group_name, member)
            self.on_left(member.client_id, member.part.group_name)
        member.part, member.is_part_guessed = part, False
        self._presence.join(self._channel(member), part)

    def consume_unheard(self, member: GrpcMember, group: str, consume_type: ConsumeType) -> None:
        """Make a client a member of a group whose subscriptions were not heard yet: it has the group's.

        It has no part in conflicts of subscriptions, for it said nothing.
        """
        if member.part is not None and member.part.group_name != group:
            self._presence.leave(member.part.group_name, member)
            self.on_left(member.client_id, member.part.group_name)
        known = self._groups.consumers.get(group)
        subscriptions = [] if known is None else list(known.subscriptions.values())
        part = ConsumerPart(group_name=group, consume_type=consume_type, subscriptions=subscriptions)
        member.part, member.is_part_guessed = part, True
        self._groups.consumers.register(self._channel(member), part)

    def refresh(self, member: GrpcMember) -> None:
        """Note a heartbeat: the client stays in its groups, with the subscriptions that it had."""
        part = member.part
        if part is not None and member.is_part_guessed:
            self.consume_unheard(member, part.group_name, part.consume_type)
        elif part is not None:
            self._presence.join(self._channel(member), part)
        self.produce(member, member.topics)

    def forget(self, member: GrpcMember) -> None:
        """Take a client out of its groups and forget its settings; its stream stays open, and is silent."""
        self._members.pop(member.client_id, None)
        self._presence.link_closed(member)
        self._settings_bytes -= member.settings_bytes
        member.stream = None
        member.keep(None)
        member.topics = ()
        if member.part is not None:
            group, member.part = member.part.group_name, None
            self.on_left(member.client_id, group)

    def drop_silent(self) -> None:
        """Forget the clients that were silent too long."""
        before_ms = self._clock.now_ms() - self._silence_ms
        for member in tuple(self._members.values()):
            if member.seen_at_ms >= before_ms:
                # Whoever was heard of last stands last.
                return
            self.forget(member)

    def _channel(self, member: GrpcMember) -> ClientChannel:
        caller = member.caller
        return ClientChannel(
            member,
            member.client_id,
            caller.language,
            GRPC_CLIENT_VERSION,
            member.seen_at_ms,
            caller.account,
        )
