"""The master's side: slaves connect to the HA port and are sent the log.

A slave says up to where it has the log. From there on it is sent what it does not have, in pieces of at most
`haTransferBatchSize` bytes that never cross a file; all pieces of a turn leave in one write. Nothing is kept
for it: a slave that does not read stops being sent to, and when it has taken what waits, the log is read
again from where it was. It acknowledges with the position it has now, which `Followers` is told.

What senders wait for leaves sooner: a synchronous master sends parts of a long turn while the turn goes on
(`send_now`), so that the slave copies one part while the master takes the next, and reads what the slave has
reported of earlier parts (`hear_now`), so that their senders go on meanwhile.

Bounded are: what waits to be written (WRITE_BYTES_HIGH and a turn's pieces), connections that have not said
hello (STRANGERS_MAX), connections at all (LINKS_MAX), silence (`haHousekeepingInterval`).

A slave that cannot be served is told why in the protocol's own words: an empty piece that begins where this
log begins or ends. The slave sees that it does not fit, and can say so.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final, cast

from pyromq.broker.replication.dialects import Plain, ReplicationDialect, WithEpochs
from pyromq.broker.replication.followers import ConnectedSlave, Followers
from pyromq.clock import Clock
from pyromq.config.settings import StoreSettings
from pyromq.errors import ListenFailed, ProtocolError
from pyromq.net.address import peer_of
from pyromq.net.server import listening_socket
from pyromq.net.turn import Turn, TurnStep
from pyromq.store.epochs import Epochs
from pyromq.store.store import MessageStore

#: How much of the log a slave is sent in one turn of the loop.
TURN_BYTES: Final = 512 << 10
WRITE_BYTES_HIGH: Final = 1 << 20
WRITE_BYTES_LOW: Final = 256 << 10
#: How much of what a slave has said is read at once while a turn goes on; a report has 12 bytes at most.
HEARD_BYTES: Final = 4096
STRANGERS_MAX: Final = 16
LINKS_MAX: Final = 64
#: Connections that the system holds until they are accepted.
_BACKLOG: Final = 100
#: How soon a slave to which nothing else is sent hears up to where the log is confirmed.
NEWS_PAUSE_S: Final = 0.1
#: A link is looked at so often within the shortest of its intervals.
LOOKS_AN_INTERVAL: Final = 4

log = logging.getLogger(__name__)


class FollowerLink(asyncio.Protocol):
    """One slave's connection."""

    def __init__(self, server: "ReplicationServer", dialect: ReplicationDialect) -> None:
        self.peer = "unknown:0"
        self.follower: ConnectedSlave | None = None
        self._server = server
        self._store = server.store
        self._dialect = dialect
        self._transport: asyncio.Transport | None = None
        self._is_greeted = False
        #: Where the next piece begins; None until the slave has said where.
        self._next: int | None = None
        self._is_paused = False
        self._is_ending = False
        #: Another descriptor of the socket, from which reports are read while a turn goes on.
        self._ear: socket.socket | None = None
        self._heard_at = self._spoke_at = server.clock.monotonic()

    # What the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BYTES_HIGH, low=WRITE_BYTES_LOW)
        self.peer, _ = peer_of(transport.get_extra_info("peername"))
        ours = transport.get_extra_info("socket")
        if ours is not None and transport.get_extra_info("sslcontext") is None:
            self._ear = ours.dup()
            self._ear.settimeout(0)
        self._server.admit(self)

    def data_received(self, data: bytes) -> None:
        """Take what the slave says; the last of several positions counts."""
        if self._is_ending:
            return
        self._heard_at = self._server.clock.monotonic()
        try:
            positions = self._dialect.hear(data)
            if self._dialect.hello is not None and not self._is_greeted:
                self._greet()
            if positions:
                if self._next is None:
                    self._begin(positions[0])
                self._acknowledge(positions[-1])
        except ProtocolError as error:
            self.end(f"{error}")

    def pause_writing(self) -> None:
        """Send nothing more: the slave does not read as fast as the log grows."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """Go on where the slave had stopped us."""
        self._is_paused = False
        self._server.wake()

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the slave."""
        self._transport = None
        if self._ear is not None:
            self._ear.close()
            self._ear = None
        self._server.forget(self, error)

    # What the server calls

    @property
    def is_stranger(self) -> bool:
        """Whether it has not yet said from where on it wants the log."""
        return self._next is None

    @property
    def waiting_bytes(self) -> int:
        """The bytes that were written and the slave has not taken."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def send_some(self) -> bool:
        """Send what the slave does not have, as much as one turn allows; return whether there is more."""
        transport = self._transport
        if transport is None or self._next is None or self._is_paused or self._is_ending:
            return False
        end = self._store.committed_position
        if self._next >= end:
            return False
        try:
            parts = self._pieces(self._next, min(end, self._next + TURN_BYTES))
        except ProtocolError as error:
            self.end(f"{error}")
            return False
        if parts is None:
            self._refuse(self._next)
            return False
        self._spoke_at = self._server.clock.monotonic()
        # One small piece is one write's bytes; many are not copied once more.
        if len(parts) == 2:
            transport.write(b"".join(parts))
        else:
            transport.writelines(parts)
        return self._next < end and not self._is_paused

    def hear_some(self) -> bool:
        """Take what the slave has said and the loop has not read yet; return whether there was something.

        Whatever is odd, the end of the connection too, is left for the loop to find.
        """
        if self._ear is None or self._is_ending:
            return False
        try:
            data = self._ear.recv(HEARD_BYTES)
        except OSError:
            return False
        if data:
            self.data_received(data)
        return bool(data)

    def look(self, now: float, silence_s_max: float, heartbeat_s: float) -> None:
        """End the link after a long silence, and break our own after a shorter one."""
        transport = self._transport
        if transport is None:
            return
        if now - self._heard_at > silence_s_max:
            if self._is_ending:
                transport.abort()
            else:
                self.end(f"silent for more than {silence_s_max:g} s")
                transport.abort()
        elif self._next is not None and now - self._spoke_at > heartbeat_s:
            self.say_nothing(now)

    def tell_news(self, now: float) -> None:
        """Tell a slave to which nothing else is sent up to where the log is confirmed, and its epoch."""
        if self._next is not None and self._dialect.has_news(self._next):
            self.say_nothing(now)

    def say_nothing(self, now: float) -> None:
        """Send an empty piece: a heartbeat."""
        if self._next is not None and not self._is_paused and not self._is_ending:
            self._server.heartbeat_count += 1
            self._write(self._dialect.head(self._next, 0), now)

    def end(self, why: str) -> None:
        """Close the connection; what was written still leaves."""
        if not self._is_ending:
            self._is_ending = True
            self._server.report(self, why)
            if self._transport is not None:
                self._transport.close()

    def abort(self) -> None:
        """End the connection at once and without a word."""
        self._is_ending = True
        if self._transport is not None:
            self._transport.abort()

    # Inside

    def _greet(self) -> None:
        hello = self._dialect.hello
        assert hello is not None
        self._is_greeted = True
        greeting = self._dialect.greet()
        if greeting:
            self._write(greeting, self._heard_at)
        id_ = hello.broker_id if hello.broker_id >= 0 else None
        if id_ is not None:
            self._server.drop_others(self, id_)
        self.follower = self._server.followers.connected(self.peer, id_, is_learner=hello.is_learner)

    def _begin(self, asked: int) -> None:
        start = asked or self._dialect.first_position()
        store = self._store
        if asked and not store.min_position <= asked <= store.committed_position:
            self._refuse(asked)
            return
        log.info(
            "%s is a slave and has the log up to %d; it is sent what follows %d", self.peer, asked, start
        )
        self._next = start
        if self._dialect.tells_news:
            self.say_nothing(self._heard_at)
        self._server.wake()

    def _acknowledge(self, position: int) -> None:
        if self.follower is None or self._is_ending:
            return
        if position > self._store.committed_position:
            self.end(f"it acknowledges {position}, and the log ends at {self._store.committed_position}")
            return
        self._server.followers.acknowledged(self.follower, position)
        if self._dialect.tells_news:
            self._server.tell_news_soon()

    def _pieces(self, start: int, end: int) -> list[bytes | memoryview] | None:
        """Return heads and bytes of the log; None when it is no longer there. Moves `_next`."""
        parts: list[bytes | memoryview] = []
        size_max = self._server.settings.ha_transfer_batch_size
        while start < end:
            data = memoryview(self._store.log_bytes(start, end - start))
            if not data:
                break
            at = 0
            while at < len(data):
                size = min(size_max, len(data) - at)
                piece_end = self._dialect.piece_end(start)
                if piece_end is not None:
                    size = min(size, piece_end - start)
                parts += (self._dialect.head(start, size), data[at : at + size])
                at += size
                start += size
        self._next = start
        return parts or None

    def _refuse(self, asked: int) -> None:
        """Tell a slave in the protocol's words that its log does not fit ours, and close."""
        store, end = self._store, self._store.committed_position
        if asked < store.min_position:
            why = (
                f"it has the log up to {asked}, and ours begins at {store.min_position}: what is between is "
                f"gone; stop that slave, remove its store folder, and start it again for a new copy"
            )
            place = store.min_position
        else:
            why = (
                f"it has the log up to {asked}, and ours ends at {end}: it has what this "
                f"master does not; look at both before one of them is given up"
            )
            place = end
        self._write(self._dialect.head(place, 0), self._heard_at)
        self.end(why)

    def _write(self, data: bytes, now: float) -> None:
        if self._transport is not None:
            self._spoke_at = now
            self._transport.write(data)


class ReplicationServer:
    """Listens for slaves and sends them the log. With `epochs` it speaks the protocol of failover."""

    def __init__(
        self,
        store: MessageStore,
        followers: Followers,
        *,
        settings: StoreSettings,
        clock: Clock,
        epochs: Epochs | None = None,
        tls: ssl.SSLContext | None = None,
        step: TurnStep | None = None,
    ) -> None:
        self._tls = tls
        #: The step of a turn in which the slaves are sent the log.
        self._step = step or Turn().step()
        self._step.run = self._send_all
        self.store = store
        self.followers = followers
        self.settings = settings
        self.clock = clock
        self.links: dict[FollowerLink, None] = {}
        #: Asked for a machine that wants to copy the log.
        self.may_follow: Callable[[str], bool] = lambda _host: True
        #: Connections that were refused or ended for a reason of their own.
        self.refused_count = 0
        #: Pieces without bytes that were sent.
        self.heartbeat_count = 0
        self._epochs = epochs
        self._listener: asyncio.Server | None = None
        self._is_closing = False
        self._looking: asyncio.TimerHandle | None = None
        self._telling: asyncio.TimerHandle | None = None
        self._reports: dict[str, str] = {}
        self._are_all_gone: asyncio.Event | None = None
        self._forget_clock: Callable[[], None] = _nothing

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen, and return the address with its real port; raise ListenFailed when that cannot be."""
        try:
            listening = listening_socket(host, port, backlog=_BACKLOG)
        except OSError as error:
            raise ListenFailed(
                f"slaves cannot be served on {host}:{port}: {error.strerror or error}; choose another "
                f"haListenPort or bindAddress"
            ) from error
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            self._new_link, sock=listening, backlog=_BACKLOG, ssl=self._tls
        )
        self._look_later()

        def look_soon() -> None:
            loop.call_soon_threadsafe(self.look)

        self._forget_clock = self.clock.on_move(look_soon)
        address: tuple[str, int] = self._listener.sockets[0].getsockname()[:2]
        return address

    async def close(self) -> None:
        """Stop listening and end all connections at once: from now on no slave hears from this broker."""
        self._is_closing = True
        self._forget_clock()
        self._forget_clock = _nothing
        for timer in (self._looking, self._telling):
            if timer is not None:
                timer.cancel()
        if self._listener is not None:
            self._listener.close()
        for link in tuple(self.links):
            link.abort()
        if self.links:
            self._are_all_gone = asyncio.Event()
            await self._are_all_gone.wait()
        if self._listener is not None:
            await self._listener.wait_closed()

    def appended(self) -> None:
        """Note that the log grew; the slaves are sent it when this turn ends.

        What is in a write buffer is sent when it is committed.
        """
        if not self.store.is_buffered:
            self.committed()

    def committed(self) -> None:
        """Note that the log's files have more of it."""
        self.followers.appended()
        if self.links:
            self.wake()

    def wake(self) -> None:
        """Send all slaves what they do not have when this turn ends."""
        self._step.due()

    def send_now(self) -> None:
        """Send all slaves what they do not have, before this turn ends: somebody waits for them."""
        for link in tuple(self.links):
            link.send_some()

    def hear_now(self) -> bool:
        """Take what slaves have said meanwhile, before this turn ends; return whether one said something."""
        heard = [link.hear_some() for link in tuple(self.links)]
        return any(heard)

    def look(self) -> None:
        """End links that were silent too long, and say something to those that heard nothing."""
        now = self.clock.monotonic()
        for link in tuple(self.links):
            link.look(
                now,
                self.settings.ha_housekeeping_interval / 1000,
                self.settings.ha_send_heartbeat_interval / 1000,
            )

    def tell_news_soon(self) -> None:
        """Tell slaves up to where the log is confirmed, if nothing else is sent to them for a while."""
        if self._telling is None and not self._is_closing:
            self._telling = asyncio.get_running_loop().call_later(NEWS_PAUSE_S, self._tell_news)

    # What the links call

    def admit(self, link: FollowerLink) -> None:
        """Take a connection, or close it when there are too many, or nobody from there may copy."""
        self.links[link] = None
        strangers = sum(one.is_stranger for one in self.links)
        if self._is_closing:
            link.abort()
        elif not self.may_follow(link.peer.rpartition(":")[0].strip("[]")):
            link.end("with aclEnable its address must be on the global white list or in haAllowedAddresses")
            link.abort()
        elif strangers > STRANGERS_MAX or len(self.links) > LINKS_MAX:
            link.end(f"one connection too many on the HA port, {len(self.links) - 1} are open")
            link.abort()

    def drop_others(self, link: FollowerLink, id_: int) -> None:
        """End earlier connections of a broker that has connected again."""
        for other in tuple(self.links):
            if other is not link and other.follower is not None and other.follower.id == id_:
                other.abort()

    def report(self, link: FollowerLink, why: str) -> None:
        """Say why a connection is ended: once, as long as the reason for that machine stays the same."""
        self.refused_count += 1
        machine = link.peer.rpartition(":")[0]
        if self._reports.get(machine) != why:
            if len(self._reports) >= LINKS_MAX:
                self._reports.clear()
            self._reports[machine] = why
            log.warning("the connection of slave %s is closed: %s", link.peer, why)

    def forget(self, link: FollowerLink, error: Exception | None) -> None:
        """Note the end of a connection."""
        self.links.pop(link, None)
        if not self.links and self._are_all_gone is not None:
            self._are_all_gone.set()
        if link.follower is not None:
            log.info("slave %s is gone%s", link.peer, f": {error}" if error else "")
            self.followers.gone(link.follower)

    # Inside

    def _new_link(self) -> FollowerLink:
        if self._epochs is None:
            return FollowerLink(self, Plain(self.store))
        return FollowerLink(self, WithEpochs(self.store, self._epochs))

    def _send_all(self) -> None:
        if self._is_closing:
            return
        is_more = False
        for link in tuple(self.links):
            is_more = link.send_some() or is_more
        if is_more:
            self.wake()

    def _look_later(self) -> None:
        interval_ms = min(self.settings.ha_housekeeping_interval, self.settings.ha_send_heartbeat_interval)
        self._looking = asyncio.get_running_loop().call_later(
            interval_ms / 1000 / LOOKS_AN_INTERVAL, self._look_and_again
        )

    def _look_and_again(self) -> None:
        self.look()
        self._look_later()

    def _tell_news(self) -> None:
        self._telling = None
        now = self.clock.monotonic()
        for link in tuple(self.links):
            link.tell_news(now)


def _nothing() -> None:
    pass
