"""One process of the generator: its connections, one loop over them, and the clock that paces them.

Plain sockets and epoll: what is done for each message is patching a frame, finding an answer's opaque and
counting. All answers that arrived together are taken together, and the requests that follow leave with one
write.

With a rate, request number n is due at start + n / rate, whatever became of those before it. One that finds
no free slot leaves late, and its latency counts from when it was due: a broker that stalls cannot hide the
requests that it kept from being sent (the «coordinated omission»).
"""

import select
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from pyromq.bench.frames import OPAQUE_FIRST, AnswerReader, PullFrame, Queue, SendFrame, UniqueKeys
from pyromq.bench.slots import FollowSlot, ReadSlot, SendSlot, Slot
from pyromq.bench.workload import Kind, Share, Tally
from pyromq.errors import ConnectionLost, RequestTimeout
from pyromq.net.address import split_address

#: How long answers are waited for when nothing more is sent.
DRAIN_S: Final = 10.0
CONNECT_TIMEOUT_S: Final = 10.0
HOLD_MS: Final = 15_000
_RECEIVE_BYTES: Final = 1 << 18
_WAIT_S: Final = 0.1
_QUIET_S: Final = 0.5
_FOREVER_NS: Final = 2**63
_NS: Final = 1_000_000_000


class Lane:
    """A connection and its slots; a slot's number is its opaque's distance from the first."""

    __slots__ = ("_epoll", "_unsent", "address", "reader", "slots", "socket")

    def __init__(self, address: str, epoll: select.epoll) -> None:
        self.address = address
        self.socket = socket.create_connection(split_address(address), CONNECT_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(0)
        self.reader = AnswerReader()
        self.slots: list[Slot] = []
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
        except BlockingIOError:
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

    def receive(self) -> bytes:
        """Return what arrived."""
        try:
            data = self.socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise ConnectionLost(f"{self.address}: {error}") from error
        if not data:
            raise ConnectionLost(f"{self.address} closed the connection")
        return data


class Worker:
    """Carries out its share of a workload: `connect`, then `run` once, then `close`."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._work = share.workload
        self._epoll = select.epoll()
        self._lanes: dict[int, Lane] = {}
        self._free: deque[tuple[Lane, Slot]] = deque()
        #: Requests that are soon answered; pulls that a broker holds are not among them.
        self._waited_for = 0
        self._left = share.requests_max if share.requests_max is not None else _FOREVER_NS
        self._interval_ns = _NS / share.rate if share.rate else None
        self._due_number = 0
        self._start_ns = 0
        self._is_sending = True
        self._tally = Tally()

    def connect(self) -> None:
        """Open the connections and encode the frames."""
        keys = UniqueKeys(time.time_ns() // 1_000_000)
        for queues in self._share.sending:
            self._connect_sender(queues, keys)
        for queues in self._share.reading:
            self._connect_reader(queues)

    def run(self, start_ns: int) -> Tally:
        """Begin at a time of the monotonic clock, and return what was done."""
        tally, is_counted = self._tally, self._work.count is not None
        self._start_ns = start_ns
        tally.from_ns = start_ns if is_counted else start_ns + int(self._work.warm_up_s * _NS)
        tally.until_ns = _FOREVER_NS if is_counted else tally.from_ns + int(self._work.duration_s * _NS)
        time.sleep(max(0.0, (start_ns - time.monotonic_ns()) / _NS))
        self._begin()
        self._turn_until(lambda: time.monotonic_ns() >= tally.from_ns or self._is_done)
        cpu_s = time.process_time()
        self._turn_until(lambda: time.monotonic_ns() >= tally.until_ns or self._is_done)
        tally.cpu_s = time.process_time() - cpu_s
        tally.wall_s = max(0, min(time.monotonic_ns(), tally.until_ns) - tally.from_ns) / _NS
        self._drain()
        return tally

    def close(self) -> None:
        """Close the connections."""
        for lane in self._lanes.values():
            lane.socket.close()
        self._epoll.close()

    # Connections -------------------------------------------------------------------------------------------

    def _open(self, address: str) -> Lane:
        lane = Lane(address, self._epoll)
        self._lanes[lane.socket.fileno()] = lane
        return lane

    def _connect_sender(self, queues: list[Queue], keys: UniqueKeys) -> None:
        work = self._work
        lane = self._open(queues[0].address)
        for number, queue in enumerate(queues):
            opaque = OPAQUE_FIRST + number
            frame = SendFrame(work.topic, queue, opaque, size=work.size, batch=work.batch, keys=keys)
            is_stamped = work.kind is Kind.ROUNDTRIP
            lane.slots.append(
                SendSlot(frame, batch=work.batch, is_paced=work.rate is not None, is_stamped=is_stamped)
            )

    def _connect_reader(self, queues: list[Queue]) -> None:
        work, starts = self._work, self._share.starts
        lane = self._open(queues[0].address)
        is_following = work.kind is Kind.ROUNDTRIP
        slots = len(queues) if is_following else work.under_way
        for number in range(slots):
            # More slots than queues: they read the same ones, unless each message is wanted once.
            mine = queues[number::slots] or (queues[number % len(queues) :][:1] if work.is_repeated else [])
            opaque, hold_ms = OPAQUE_FIRST + number, HOLD_MS if is_following else 0
            frames = [
                PullFrame(work.topic, queue, opaque, count=work.pull, hold_ms=hold_ms) for queue in mine
            ]
            if is_following:
                lane.slots.append(FollowSlot(frames[0], starts[mine[0]]))
            elif mine:
                first = [starts[queue] for queue in mine]
                lane.slots.append(ReadSlot(frames, first, is_repeated=work.is_repeated))

    # The loop ----------------------------------------------------------------------------------------------

    @property
    def _is_done(self) -> bool:
        return self._waited_for == 0 and (self._left == 0 or self._interval_ns is None)

    def _begin(self) -> None:
        now_ns, born_ms = time.monotonic_ns(), _born_ms()
        lanes = list(self._lanes.values())
        for lane in lanes:
            frames = [self._request(slot, now_ns, born_ms) for slot in lane.slots if not slot.is_paced]
            lane.write(b"".join(filter(None, frames)))
        # Slot by slot, not lane by lane: paced requests go to the connections in turn.
        for number in range(max((len(lane.slots) for lane in lanes), default=0)):
            self._free.extend(
                (lane, lane.slots[number])
                for lane in lanes
                if number < len(lane.slots) and lane.slots[number].is_paced
            )

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
        if self._interval_ns is None or not self._is_sending:
            return self._epoll.poll(_WAIT_S)
        # epoll's own timeout is rounded up to a millisecond; select's is not.
        due_ns = self._start_ns + self._due_number * self._interval_ns
        wait_s = min((due_ns - time.monotonic_ns()) / _NS, _WAIT_S)
        if wait_s > 0 or not self._free:
            select.select([self._epoll], [], [], wait_s if wait_s > 0 else _WAIT_S)
        return self._epoll.poll(0)

    def _take_answers(self, lane: Lane) -> None:
        data = lane.receive()
        now_ns, born_ms = time.monotonic_ns(), _born_ms()
        tally, slots, requests = self._tally, lane.slots, []
        for answer in lane.reader.feed(data):
            slot = slots[answer.opaque - OPAQUE_FIRST]
            slot.answered(answer, now_ns, tally)
            if slot.is_waited_for:
                self._waited_for -= 1
            if slot.is_paced:
                self._free.append((lane, slot))
            elif request := self._request(slot, now_ns, born_ms):
                # A copy is made by the join; until then the slot does not touch its bytes again.
                requests.append(request)
        if requests:
            lane.write(b"".join(requests))

    def _request(self, slot: Slot, since_ns: int, born_ms: bytes) -> bytes | bytearray | None:
        if not slot.is_waited_for:
            return slot.request(born_ms)
        if not self._is_sending or self._left == 0:
            return None
        slot.since_ns = since_ns
        request = slot.request(born_ms)
        if request is not None:
            self._left -= 1
            self._waited_for += 1
        return request

    def _send_due(self, interval_ns: float) -> None:
        now_ns, born_ms = time.monotonic_ns(), _born_ms()
        due: dict[Lane, list[bytes | bytearray]] = {}
        while self._free and self._left:
            due_ns = self._start_ns + int(self._due_number * interval_ns)
            if due_ns > now_ns:
                break
            lane, slot = self._free.popleft()
            if request := self._request(slot, due_ns, born_ms):
                due.setdefault(lane, []).append(request)
                self._due_number += 1
                if due_ns >= self._tally.from_ns:
                    self._tally.late_ns = max(self._tally.late_ns, now_ns - due_ns)
        for lane, requests in due.items():
            lane.write(b"".join(requests))

    def _drain(self) -> None:
        self._is_sending = False
        deadline = time.monotonic() + DRAIN_S
        self._turn_until(lambda: self._waited_for == 0 or time.monotonic() > deadline)
        if self._waited_for:
            raise RequestTimeout(f"{self._waited_for} requests have no answer after {DRAIN_S:g} s")
        while self._work.kind is Kind.ROUNDTRIP:
            delivered, quiet_at = self._tally.delivered_in_all, time.monotonic() + _QUIET_S
            self._turn_until(lambda until=quiet_at: time.monotonic() > until)  # type: ignore[misc]
            if self._tally.delivered_in_all == delivered:
                return


def _born_ms() -> bytes:
    return b"%d" % (time.time_ns() // 1_000_000)
