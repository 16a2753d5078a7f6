"""The slave's side of replication: connects to the master's HA port, copies the log, and acknowledges it.

    connect → compare (last record, or epochs) → hello → pieces … → the link ends → pause → connect → …

A synchronous master counts as safe what a slave acknowledges. So under synchronous flush a slave acknowledges
what its own disk has: the pieces of many reads share a sync, as a master's sends do
(`durability/log_sync.py`). Under asynchronous flush it acknowledges what was copied, as with RocketMQ.

The cause that ended a link is logged once, until there is another cause or the link works; `trouble` has it.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from pyromq.broker.durability.acknowledgement import NotSafe
from pyromq.broker.replication.copying import Copying
from pyromq.broker.replication.divergence import Diverged, check_last_record
from pyromq.clock import Clock
from pyromq.errors import ConnectFailed, ConnectionLost, NetworkError, ProtocolError, PyroError, StoreError
from pyromq.net.address import split_address
from pyromq.net.links import Links
from pyromq.net.turn import Turn, TurnStep
from pyromq.store.epochs import Epochs
from pyromq.store.store import MessageStore
from pyromq.wire.replication import (
    EPOCH_PIECE_HEAD_BYTES,
    FRAME_BYTES_MAX,
    Hello,
    encode_hello,
    encode_position,
    encode_report,
    read_welcome,
)

CONNECT_S_MAX: Final = 3.0
#: Between two tries with static roles, as RocketMQ has it, and with failover.
RETRY_S: Final = 5.0
FAILOVER_RETRY_S: Final = 0.2
#: Seconds until it is looked again whether somebody knows where the master is; that costs nothing.
UNKNOWN_S: Final = 0.2
#: After the logs were found to differ: whoever was told needs time.
DIVERGED_RETRY_S: Final = 5.0
#: How much is read at once, which is what a turn of the loop appends: a slave that has much to catch up with
#: has others to attend to.
READ_BYTES: Final = 512 << 10
#: How much of that is appended at once; each part is acknowledged.
APPEND_BYTES: Final = 256 << 10
LOOKS_AN_INTERVAL: Final = 4

log = logging.getLogger(__name__)


class MasterLink(asyncio.BufferedProtocol):
    """The connection to the master."""

    def __init__(self, client: "ReplicationClient", copying: Copying, address: str) -> None:
        self.address = address
        #: Why it ended, once it has.
        self.ended: asyncio.Future[PyroError] = asyncio.get_running_loop().create_future()
        #: Whether the handshake is over, if there is one, and the log comes.
        self.is_copying = False
        self._client = client
        self._copying = copying
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray(FRAME_BYTES_MAX + EPOCH_PIECE_HEAD_BYTES + READ_BYTES)
        self._view = memoryview(self._buffer)
        #: Up to where the buffer has something, and how much of that is appended.
        self._filled = self._taken = 0
        self._is_reading_paused = False
        self._is_known_to_fit = False
        self._has_copied = False
        #: What the master was told last, and whether the disk is waited for before it is told more.
        self._told = 0
        self._is_syncing = False
        self._heard_at = self._spoke_at = client.clock.monotonic()
        self._has_epochs = client.epochs is not None

    # What the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start; nothing is said before `begin`."""
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Give the next part of the buffer."""
        return self._view[self._filled : self._filled + READ_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        """Take what has come."""
        self._filled += nbytes
        self._heard_at = self._client.clock.monotonic()
        if self.ended.done():
            return
        try:
            if self._is_reading_paused:
                return
            if self.is_copying:
                self._copy()
                if nbytes >= READ_BYTES:
                    self._let_others()
            elif self._has_epochs:
                self._shake_hands()
            else:
                self.end(ConnectionLost("the master spoke before it was asked"))
        except (ProtocolError, StoreError, Diverged) as error:
            self.end(error)

    def connection_lost(self, error: Exception | None) -> None:
        """Note the end."""
        self._transport = None
        self.end(ConnectionLost(str(error) if error else "the master has closed the connection"))

    # What the client calls

    def begin(self, *, is_known_to_fit: bool = False) -> None:
        """Say hello: with static roles that is how far the log goes.

        `is_known_to_fit`: the last record was compared, and is the master's.
        """
        self._is_known_to_fit = is_known_to_fit
        if self._has_epochs:
            self._write(encode_hello(Hello(self._client.broker_id)))
        else:
            self.is_copying = True
            self._tell(self._client.store.max_position)

    def look(self, now: float) -> None:
        """End the link when the master is silent, and break our own silence."""
        settings = self._client.settings
        if now - self._heard_at > settings.ha_housekeeping_interval / 1000:
            silence_s = settings.ha_housekeeping_interval / 1000
            self.end(ConnectionLost(f"the master was silent for more than {silence_s:g} s"))
        elif self.is_copying and now - self._spoke_at > settings.ha_send_heartbeat_interval / 1000:
            self._tell(self._told)

    def end(self, error: PyroError) -> None:
        """End the link for a reason; the first one counts."""
        if not self.ended.done():
            self.ended.set_result(error)
        self.is_copying = False
        if self._transport is not None:
            self._transport.abort()

    # Inside

    def _shake_hands(self) -> None:
        found = read_welcome(self._view[: self._filled])
        if found is None:
            return
        welcome, length = found
        self._copying.compare(welcome, is_known_to_fit=self._is_known_to_fit)
        self._taken = length
        self.is_copying = True
        self._tell(self._client.store.max_position)
        self._copy()

    def _copy(self) -> None:
        """Append all that is whole of what was read, and acknowledge it part by part."""
        taken = APPEND_BYTES
        while taken >= APPEND_BYTES:
            taken = self._append()
        left = self._filled - self._taken
        if left and self._taken:
            # To the beginning of the buffer.
            self._buffer[:left] = self._buffer[self._taken : self._filled]
        self._taken, self._filled = 0, left

    def _append(self) -> int:
        """Append a part, and return how many bytes that were."""
        client = self._client
        before = end = client.store.max_position
        try:
            taken = self._copying.take(self._view[self._taken : self._filled], APPEND_BYTES)
        finally:
            end = client.store.max_position
            if end > before:
                client.note_copied(end - before)
        self._taken += taken
        if taken and not self._has_copied:
            self._has_copied = True
            client.note_following(self.address, before)
        self._acknowledge(end)
        return taken

    def _let_others(self) -> None:
        """Read on in the next turn. libuv alone would read one socket 32 times over before anything else."""
        if self._transport is not None:
            self._is_reading_paused = True
            self._transport.pause_reading()
            self._client.step.due()

    def go_on(self) -> None:
        """Append what came although nothing was to be read, and read on; the end of a turn calls this."""
        if self.is_copying and self._is_reading_paused and self._transport is not None:
            self._is_reading_paused = False
            try:
                self._copy()
            except (ProtocolError, StoreError, Diverged) as error:
                self.end(error)
            else:
                self._transport.resume_reading()

    def _acknowledge(self, end: int) -> None:
        """Tell the master that the log is here: at once, or when the disk has it, once for many pieces."""
        store, on_disk = self._client.store, self._client.on_disk
        if on_disk is None:
            if end > self._told:
                self._tell(end)
        elif store.whole_position > self._told and not self._is_syncing:
            self._is_syncing = True
            on_disk(store.whole_position).add_done_callback(self._synced)

    def _synced(self, sync: "asyncio.Future[None]") -> None:
        self._is_syncing = False
        if self.ended.done() or sync.cancelled():
            return
        error = sync.exception()
        if error is None:
            self._tell(self._client.store.flushed_position)
        elif not isinstance(error, NotSafe):
            self.end(StoreError(str(error)))
            return
        # More may have come meanwhile; and a disk that is only slow is waited for, for as long as it takes.
        self._acknowledge(self._client.store.max_position)

    def _tell(self, position: int) -> None:
        self._told = position
        self._write((encode_report if self._has_epochs else encode_position)(position))

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._spoke_at = self._client.clock.monotonic()
            self._transport.write(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterSource:
    """The place of a slave's master.

    `ha_address` returns the address of its HA port, and `address` that of its requests; both are asked before
    each try, and None means that it is not known now. With `links` and `address` the last record of a log
    without epochs is compared with the master's before it is copied.
    """

    ha_address: Callable[[], str | None]
    address: Callable[[], str | None] = lambda: None
    links: Links | None = None
    tls: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverSlave:
    """A slave's identity in a group with failover; `epoch` is the master's, or an earlier one."""

    epochs: Epochs
    epoch: int
    broker_id: int


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyEvents:
    """The functions that a slave calls while it copies.

    `on_diverged` is called when the logs differ, with what is known of the difference. `on_copied` is called
    after each append, `on_confirmed` when more may be read, `on_following` once the master sends what fits.
    `on_disk` brings the log to this disk up to a position; with it, only what the disk has is acknowledged.
    """

    on_diverged: Callable[[Diverged], None] = lambda _error: None
    on_copied: Callable[[], None] = _nothing
    on_following: Callable[[], None] = _nothing
    on_confirmed: Callable[[int], None] | None = None
    on_disk: Callable[[int], "asyncio.Future[None]"] | None = None


class ReplicationClient:
    """Follows a master; as a `FailoverSlave` by the protocol of failover."""

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        master: MasterSource,
        *,
        events: CopyEvents,
        failover: FailoverSlave | None = None,
        retry_s: float | None = None,
        step: TurnStep | None = None,
    ) -> None:
        #: The step of a turn in which reading goes on, when one turn had enough.
        self.step = step or Turn().step()
        self.step.run = self._go_on
        self.store = store
        self.settings = store.settings
        self.clock = clock
        self.epochs = epochs = None if failover is None else failover.epochs
        self.broker_id = 0 if failover is None else failover.broker_id
        #: Why nothing is copied; None while it is, or when nothing was tried.
        self.trouble: str | None = None
        self.copied_bytes = 0
        self.connects_count = 0
        self.is_diverged = False
        self._master = master
        self._events = events
        self.on_disk = events.on_disk
        self._copying = Copying(
            store, epochs, epoch=0 if failover is None else failover.epoch, on_confirmed=events.on_confirmed
        )
        self._retry_s = retry_s or (RETRY_S if epochs is None else FAILOVER_RETRY_S)
        self._link: MasterLink | None = None
        self._following: asyncio.Task[None] | None = None
        self._looking: asyncio.TimerHandle | None = None
        self._forget_clock: Callable[[], None] = _nothing

    @property
    def is_connected(self) -> bool:
        """Whether the log is being copied."""
        return self._link is not None and self._link.is_copying

    @property
    def lag_bytes(self) -> int:
        """The bytes of the master's log that are known to be missing here."""
        return max(0, self._copying.known_end - self.store.max_position)

    def _go_on(self) -> None:
        if self._link is not None:
            self._link.go_on()

    def start(self) -> None:
        """Begin to follow. With failover nothing is readable before the master has confirmed it."""
        if self.epochs is not None and self.store.readable_position is None:
            self.store.readable_position = 0
        loop = asyncio.get_running_loop()
        self._following = loop.create_task(self._follow_always(), name="follow the master")
        self._look_later()

        def look_soon() -> None:
            loop.call_soon_threadsafe(self.look)

        self._forget_clock = self.clock.on_move(look_soon)

    async def close(self) -> None:
        """End the connection, and follow no more."""
        self._forget_clock()
        self._forget_clock = _nothing
        if self._looking is not None:
            self._looking.cancel()
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait({self._following})
            self._following = None

    def look(self) -> None:
        """End a link that is silent or leads to one who is no longer the master; break our own silence."""
        link = self._link
        if link is None:
            return
        address = self._master.ha_address()
        if address is not None and address != link.address:
            link.end(ConnectionLost(f"the master is at {address} now"))
        else:
            link.look(self.clock.monotonic())

    def note_copied(self, size: int) -> None:
        """Note that the log has grown. The link calls it."""
        self.copied_bytes += size
        self._events.on_copied()

    def note_following(self, address: str, position: int) -> None:
        """Note that the master sends what fits. The link calls it."""
        log.info("this slave follows %s from %d on", address, position)
        self.trouble = None
        self.is_diverged = False
        self._events.on_following()

    # Inside

    async def _follow_always(self) -> None:
        while True:
            address = self._master.ha_address()
            if address is None:
                # The name servers are being asked, or no master has registered yet.
                await asyncio.sleep(UNKNOWN_S)
                continue
            pause_s = self._retry_s
            try:
                await self._follow(address)
            except Diverged as error:
                self._note_diverged(address, error)
                pause_s = DIVERGED_RETRY_S
            except PyroError as error:
                self._note_trouble(address, error)
            await asyncio.sleep(pause_s)

    async def _follow(self, address: str) -> None:
        """Copy from a master until the connection ends, and raise why."""
        if self.on_disk is not None:
            # The first word says from where on the log is wanted, and acknowledges all before it.
            await self.on_disk(self.store.whole_position)
        link = await self._connect(address)
        self._link = link
        self.store.forget_arriving()
        try:
            is_known_to_fit = False
            if self.epochs is None or self._copying.has_no_epochs:
                is_known_to_fit = await self._compare_last_record()
            link.begin(is_known_to_fit=is_known_to_fit)
            self.connects_count += 1
            raise await link.ended
        finally:
            self._link = None
            link.end(ConnectionLost("this slave follows no more"))

    async def _connect(self, address: str) -> MasterLink:
        host, port = split_address(address)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                _, link = await loop.create_connection(
                    lambda: MasterLink(self, self._copying, address), host, port, ssl=self._master.tls
                )
        except TimeoutError as error:
            raise ConnectFailed(f"no connection within {CONNECT_S_MAX:g} s") from error
        except OSError as error:
            raise ConnectFailed(f"no connection: {error.strerror or error}") from error
        return link

    async def _compare_last_record(self) -> bool:
        """Return whether the last record was compared; raise Diverged when it is another."""
        address, links = self._master.address(), self._master.links
        if links is None or address is None:
            return False
        await check_last_record(self.store, links, address)
        return True

    def _note_trouble(self, address: str, error: PyroError) -> None:
        trouble = f"the master's log at {address} is not copied: {error}"
        if trouble != self.trouble:
            self.trouble = trouble
            level = logging.WARNING if isinstance(error, NetworkError) else logging.ERROR
            log.log(level, "%s", trouble)

    def _note_diverged(self, address: str, error: Diverged) -> None:
        is_new = not self.is_diverged
        self.is_diverged = True
        self._note_trouble(address, error)
        if is_new or error.common_end is not None:
            self._events.on_diverged(error)

    def _look_later(self) -> None:
        settings = self.settings
        interval_ms = min(settings.ha_housekeeping_interval, settings.ha_send_heartbeat_interval)
        self._looking = asyncio.get_running_loop().call_later(
            interval_ms / 1000 / LOOKS_AN_INTERVAL, self._look_and_again
        )

    def _look_and_again(self) -> None:
        self.look()
        self._look_later()
