"""One process of the generator: its connections, one loop over them, and the clock that paces them.

Plain sockets and epoll. All answers that arrived together are taken together, and the requests that follow
leave with one write; what is done for each message is in the slots, compiled where a compiler was.

With a rate, request number n is due at start + n / rate, whatever became of those before it. Connections have
the numbers in turn. A request whose connection has no free slot leaves late, and its latency counts from when
it was due: a broker that stalls cannot hide the requests that it kept from being sent (the "coordinated
omission").
"""

import contextlib
import select
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pyromq.bench.frames import (
    OPAQUE_FIRST,
    Queue,
    SendTemplate,
    key_prefix,
    pull_template,
    send_back_template,
    send_template,
    signed_templates,
)
from pyromq.bench.histogram import LatencyHistogram
from pyromq.bench.speed import Counts, PullSlots, SendSlots, Templates, TransactionSlots
from pyromq.bench.workload import LoadKind, LoadTally, Share
from pyromq.client.client_session import net_settings
from pyromq.client.signing import signer
from pyromq.errors import ConnectionLost, RemoteProtocolError, RequestTimeout
from pyromq.net.address import split_address
from pyromq.net.tls import client_context

#: How long answers are waited for when nothing more is sent.
DRAIN_S: Final = 10.0
CONNECT_TIMEOUT_S: Final = 10.0
HOLD_MS: Final = 15_000
_RECEIVE_BYTES: Final = 1 << 18
_WAIT_S: Final = 0.1
#: Signed sends that a process makes beforehand and repeats: a signature costs more than all else of a send.
_SIGNED: Final = 2_048
#: The system takes or has nothing now; TLS says it in its own way.
_NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_QUIET_S: Final = 0.5
_FOREVER: Final = 2**63 - 1
_NS: Final = 1_000_000_000


class Lane:
    """A connection and its slots."""

    __slots__ = ("_epoll", "_unsent", "address", "slots", "socket")

    def __init__(
        self,
        address: str,
        epoll: select.epoll,
        slots: SendSlots | PullSlots,
        context: ssl.SSLContext | None,
    ) -> None:
        self.address = address
        self.slots = slots
        self.socket = socket.create_connection(split_address(address), CONNECT_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            self.socket = context.wrap_socket(self.socket)
        self.socket.settimeout(0)
        self._epoll = epoll
        self._unsent = b""
        epoll.register(self.socket, select.EPOLLIN)

    def write(self, data: bytes) -> None:
        """Send now what the system takes, and the rest when it takes more."""
        if self._unsent:
            self._unsent += data
            return
        try:
            sent = self.socket.send(data)
        except _NOT_NOW:
            sent = 0
        except OSError as error:
            raise ConnectionLost(f"{self.address}: {error}") from error
        if sent < len(data):
            self._unsent = data[sent:]
            self._epoll.modify(self.socket, select.EPOLLIN | select.EPOLLOUT)

    def write_rest(self) -> None:
        """Go on with what the system did not take."""
        rest, self._unsent = self._unsent, b""
        self._epoll.modify(self.socket, select.EPOLLIN)
        self.write(rest)

    def receive(self, buffer: memoryview) -> int:
        """Put what arrived into the buffer, behind what was left of the last time; return where it ends."""
        rest = self.slots.rest
        at = len(rest)
        if at:
            buffer[:at] = rest
        try:
            count = self.socket.recv_into(buffer[at:])
        except _NOT_NOW:
            return at
        except OSError as error:
            raise ConnectionLost(f"{self.address}: {error}") from error
        if not count:
            raise ConnectionLost(f"{self.address} closed the connection")
        return at + count

    @property
    def has_more(self) -> bool:
        """Whether TLS has decrypted bytes that were not received yet: the system does not tell of them."""
        return isinstance(self.socket, ssl.SSLSocket) and self.socket.pending() > 0


class Worker:
    """Carries out its share of a workload: `connect`, then `run` once, then `close`."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._work = share.workload
        self._epoll = select.epoll()
        self._lanes: dict[int, Lane] = {}
        #: Lanes that send when requests are due; request number n leaves on lane n modulo their number.
        self._paced: list[tuple[Lane, SendSlots]] = []
        self._buffer = memoryview(bytearray(_RECEIVE_BYTES))
        self._limit = share.requests_max if share.requests_max is not None else _FOREVER
        self._interval_ns = _NS / share.rate if share.rate else None
        self._due_number = 0
        self._start_ns = 0
        self._is_sending = True
        self._counts = Counts()
        self._sign = signer(self._work.client)
        self._context = client_context(net_settings(self._work.client))

    def connect(self) -> None:
        """Open the connections and encode the frames."""
        templates = {address: self._templates(queues) for address, queues in self._share.queues.items()}
        is_stamped = self._work.kind.is_followed
        kind = TransactionSlots if self._work.kind is LoadKind.TRANSACTION else SendSlots
        for address in self._share.sending:
            slots = kind(
                templates[address],
                self._counts,
                self._work.under_way,
                batch=self._work.batch,
                is_stamped=is_stamped,
            )
            lane = self._open(address, slots)
            if self._interval_ns is not None:
                self._paced.append((lane, slots))
        for queues in self._share.reading:
            self._connect_reader(queues)

    def run(self, start_ns: int) -> LoadTally:
        """Begin at a time of the monotonic clock, and return what was done."""
        counts, is_counted = self._counts, self._work.count is not None
        self._start_ns = start_ns
        counts.delay_ns = int(self._work.delay_s * _NS)
        counts.from_ns = start_ns if is_counted else start_ns + int(self._work.warm_up_s * _NS)
        counts.until_ns = _FOREVER if is_counted else counts.from_ns + int(self._work.duration_s * _NS)
        time.sleep(max(0.0, (start_ns - time.monotonic_ns()) / _NS))
        self._begin()
        self._turn_until(lambda: time.monotonic_ns() >= counts.from_ns or self._is_done)
        cpu_s = time.process_time()
        self._turn_until(lambda: time.monotonic_ns() >= counts.until_ns or self._is_done)
        cpu_s = time.process_time() - cpu_s
        wall_s = max(0, min(time.monotonic_ns(), counts.until_ns) - counts.from_ns) / _NS
        self._drain()
        return LoadTally(
            messages=counts.messages,
            messages_in_all=counts.messages_in_all,
            delivered_in_all=counts.delivered_in_all,
            requests=LatencyHistogram(*counts.latencies()),
            deliveries=LatencyHistogram(*counts.arrivals()),
            refused=counts.refused,
            late_ns=counts.late_ns,
            early_ns=counts.early_ns,
            cpu_s=cpu_s,
            wall_s=wall_s,
        )

    def close(self) -> None:
        """Close the connections."""
        for lane in self._lanes.values():
            lane.socket.close()
        self._epoll.close()

    # Connections -------------------------------------------------------------------------------------------

    def _templates(self, queues: list[Queue]) -> Templates:
        # Readers need none, but a template is a part of every share.
        rows = self._requests(queues if self._share.sending else queues[:1])
        first_key = (time.time_ns() // 1_000_000 & 0xFFFFFFFF) << 16
        return Templates(rows, first_key, len(rows) * self._share.process // self._work.processes)

    def _requests(self, queues: list[Queue]) -> list[SendTemplate]:
        work = self._work
        if work.kind is LoadKind.SEND_BACK:
            positions = self._share.positions[queues[0].address]
            return [send_back_template(work.topic, position, level=work.level) for position in positions]
        shape: dict[str, Any] = {
            "size": work.size,
            "batch": work.batch,
            "prefix": key_prefix(),
            "properties": work.properties,
            "has_keys": work.has_keys,
        }
        if self._sign is not None:
            return signed_templates(queues, _SIGNED, self._sign, **shape)
        is_half = work.kind is LoadKind.TRANSACTION
        return [send_template(queue, **shape, is_half=is_half, is_binary=work.is_binary) for queue in queues]

    def _open(self, address: str, slots: SendSlots | PullSlots) -> Lane:
        lane = Lane(address, self._epoll, slots, self._context)
        self._lanes[lane.socket.fileno()] = lane
        return lane

    def _connect_reader(self, queues: list[Queue]) -> None:
        work, starts = self._work, self._share.starts
        is_following = work.kind.is_followed
        slots = len(queues) if is_following else work.under_way
        pulls = []
        for number in range(slots):
            # More slots than queues: they read the same ones, unless each message is wanted once.
            mine = queues[number::slots] or (queues[number % len(queues) :][:1] if work.is_repeated else [])
            opaque, hold_ms = OPAQUE_FIRST + number, HOLD_MS if is_following else 0
            if mine:
                pulls.append(
                    [
                        pull_template(queue, opaque, starts[queue], count=work.pull, hold_ms=hold_ms)
                        for queue in mine
                    ]
                )
        self._open(
            queues[0].address,
            PullSlots(pulls, self._counts, is_following=is_following, is_repeated=work.is_repeated),
        )

    # The loop ----------------------------------------------------------------------------------------------

    @property
    def _is_done(self) -> bool:
        counts = self._counts
        return counts.under_way == 0 and (counts.sent >= self._limit or self._interval_ns is None)

    def _begin(self) -> None:
        if self._interval_ns is not None:
            _wake_exactly()
        for number, (_, slots) in enumerate(self._paced):
            slots.pace(self._start_ns, self._interval_ns or 0.0, number, len(self._paced))
        now_ns = time.monotonic_ns()
        for lane in self._lanes.values():
            self._refill(lane, now_ns)

    def _turn_until(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            self._turn()

    def _turn(self) -> None:
        for descriptor, events in self._events():
            lane = self._lanes[descriptor]
            if events & select.EPOLLOUT:
                lane.write_rest()
            if events & ~select.EPOLLOUT:
                self._take_answers(lane)
        if self._interval_ns is not None and self._is_sending:
            self._send_due(self._interval_ns)

    def _events(self) -> list[tuple[int, int]]:
        if self._interval_ns is None or not self._is_sending or self._due_number >= self._limit:
            return self._epoll.poll(_WAIT_S)
        # epoll's own timeout is rounded up to a millisecond; select's is not.
        due_ns = self._start_ns + self._due_number * self._interval_ns
        wait_s = min((due_ns - time.monotonic_ns()) / _NS, _WAIT_S)
        if wait_s > 0:
            select.select([self._epoll], [], [], wait_s)
        return self._epoll.poll(0)

    def _take_answers(self, lane: Lane) -> None:
        self._take_some(lane)
        while lane.has_more:
            self._take_some(lane)

    def _take_some(self, lane: Lane) -> None:
        end = lane.receive(self._buffer)
        now_ns = time.monotonic_ns()
        try:
            lane.slots.feed(self._buffer[:end], now_ns)
        except ValueError as error:
            raise RemoteProtocolError(f"{lane.address}: {error}") from error
        if len(lane.slots.rest) * 2 > len(self._buffer):
            self._buffer = memoryview(bytearray(2 * len(self._buffer)))
        self._refill(lane, now_ns)

    def _refill(self, lane: Lane, now_ns: int) -> None:
        born_ms = time.time_ns() // 1_000_000
        slots = lane.slots
        if self._interval_ns is not None and isinstance(slots, SendSlots):
            # What was begun goes on when nothing more is begun.
            limit = self._limit if self._is_sending else 0
            requests = slots.fill_due(now_ns, limit, born_ms)
        else:
            most = self._limit - self._counts.sent if self._is_sending else 0
            requests = slots.fill(most, now_ns, born_ms)
        if requests:
            lane.write(requests)

    def _send_due(self, interval_ns: float) -> None:
        now_ns, born_ms = time.monotonic_ns(), time.time_ns() // 1_000_000
        first = self._due_number
        following = min(int((now_ns - self._start_ns) / interval_ns) + 1, self._limit)
        self._due_number = max(first, following)
        # A request that found no free slot is not seen here again: it leaves when its lane has an answer.
        for number in range(first, min(following, first + len(self._paced))):
            lane, slots = self._paced[number % len(self._paced)]
            if requests := slots.fill_due(now_ns, self._limit, born_ms):
                lane.write(requests)

    def _drain(self) -> None:
        self._is_sending = False
        deadline = time.monotonic() + DRAIN_S
        self._turn_until(lambda: self._counts.under_way == 0 or time.monotonic() > deadline)
        if self._counts.under_way:
            raise RequestTimeout(f"{self._counts.under_way} requests have no answer after {DRAIN_S:g} s")
        quiet_s = _QUIET_S + self._work.delay_s
        while self._work.kind.is_followed:
            delivered, quiet_at = self._counts.delivered_in_all, time.monotonic() + quiet_s
            self._turn_until(lambda until=quiet_at: time.monotonic() > until)  # type: ignore[misc]
            if self._counts.delivered_in_all == delivered:
                return
            quiet_s = _QUIET_S


def _wake_exactly() -> None:
    """Have the system end our waits when they are over, not up to 50 µs later, where it lets us."""
    with contextlib.suppress(OSError):
        Path("/proc/self/timerslack_ns").write_text("1000")
