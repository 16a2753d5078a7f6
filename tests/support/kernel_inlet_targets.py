"""Inlets, compiled and in Python, driven with the same random events; see `kernel_targets`."""

from random import Random
from types import ModuleType
from typing import Any

from kernel_inputs import cuts, exact_bytes, expect, module, mostly, target


class Transport:
    """Keeps what is written; `stuck` bytes are said to wait for the peer."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.stuck = 0

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def writelines(self, chunks: list[bytes]) -> None:
        self.writes.append(b"".join(chunks))

    def get_write_buffer_size(self) -> int:
        return self.stuck


class Speed:
    """A turn and some inlets, compiled or in Python, and what they called."""

    def __init__(self, kind: ModuleType, count: int, *, is_caller: bool) -> None:
        self.kind, self.calls, self.now = kind, list[Any](), 0.0
        self.is_broken = False
        self.turn = _turning(self)()
        self.turn._monotonic = self.tick
        self.turn.call_soon = self.planned
        linked = _linked(self)
        self.inlets = [linked(self.turn, lambda: self.now, 1000, is_caller=is_caller) for _ in range(count)]
        for number, inlet in enumerate(self.inlets):
            inlet.number, inlet._transport = number, Transport()

    def tick(self) -> float:
        """Return the time, which goes on a little."""
        self.now += 0.003
        return self.now

    def planned(self, callback: Any) -> None:
        """Note that an end of the turn is planned."""
        expect(callback == self.turn.end, "the end of the turn is planned")
        self.calls.append("plan the end")

    def take(self, inlets: list[Any]) -> bool:
        """Be a shortcut, which may fail, or eat some of what inlets received."""
        self.calls.append(self.kind.waiting_since(inlets))
        self.calls.append([inlet.number for inlet in self.kind.with_bytes(inlets, 2)])
        if self.is_broken:
            raise ValueError("a mistake")
        for inlet in inlets[::2]:
            inlet.skip_to(len(inlet.received))
        return True

    def state(self) -> list[Any]:
        return [
            self.calls,
            [inlet.number for inlet in self.turn.noted],
            [inlet.number for inlet in self.turn.joined],
            self.turn.noted_bytes,
            (self.turn.began_at, self.turn.looked_at, self.turn.is_planned, self.turn._is_idle, self.now),
            *(
                (
                    bytes(inlet.received), inlet.start, inlet.closed, inlet.waits_since, inlet.read_at,
                    inlet._active_at, inlet.answer_room(), inlet._turn_bytes, inlet._transport.writes,
                    inlet.under_way_count, inlet.pending_bytes,
                )
                for inlet in self.inlets
            ),
        ]  # fmt: skip


def _turning(speed: Speed) -> Any:
    """Return the class of its turn, which notes what it calls."""

    class Turning(speed.kind.TurnInlets):  # type: ignore[misc, name-defined]
        def _give_up(self, inlets: list[Any]) -> None:
            speed.calls.append(("give up", [inlet.number for inlet in inlets]))

        def _keep_back(self, inlets: list[Any]) -> None:
            speed.calls.append(("keep back", [inlet.number for inlet in inlets]))

        def _look_for_bytes(self, turns: int) -> None:
            speed.calls.append(("look for bytes", turns))
            self._is_idle = speed.now % 2 == 0

        def _run_steps(self) -> None:
            speed.calls.append("run steps")
            self.has_due_steps = speed.now % 3 == 0

        def _pass_on(self) -> None:
            speed.calls.append("pass on")
            self._is_taken = speed.now % 2 == 0

    return Turning


def _linked(speed: Speed) -> Any:
    """Return the class of its inlets, which note what they call."""

    class Linked(speed.kind.Inlet):  # type: ignore[misc, name-defined]
        number = 0

        def _handle_received(self, data: bytes) -> None:
            speed.calls.append(("handle", self.number, data))
            self._takes_notes = True

        def _settle(self) -> None:
            speed.calls.append(("settle", self.number))

        def _go_on(self) -> None:
            speed.calls.append(("go on", self.number))

        def _overflow(self, waiting_bytes: int) -> None:
            speed.calls.append(("overflow", self.number, waiting_bytes))
            self.closed = True

        def handle_left(self) -> None:
            speed.calls.append(("handle what is left", self.number))

    return Linked


@target("inlets.Inlet", "inlets.TurnInlets", "inlets.waiting_since", "inlets.with_bytes")
def inlets(random: Random) -> None:
    from pyromq.net import inlet as in_python

    count, is_caller = mostly(random, 2, 1, 5), random.random() < 0.1
    speeds = [Speed(kind, count, is_caller=is_caller) for kind in (module("inlets"), in_python)]
    for speed in speeds:
        speed.turn.shortcut = speed.take
    for step in range(random.choice((3, 20, 60))):
        number, data = random.randrange(count), random.randbytes(random.choice((1, 30, 400, 17_000, 300_000)))
        kind, at = random.randrange(8), random.random()
        pieces = [exact_bytes(piece) for piece in cuts(random, data) if piece]
        for speed in speeds:
            speed.now += step
            _do(speed, speed.inlets[number], kind, at, pieces)
        expect(speeds[0].state() == speeds[1].state(), "both speeds do the same")


def _do(speed: Speed, inlet: Any, kind: int, at: float, pieces: list[bytes]) -> None:
    if kind <= 2:
        for piece in pieces:
            inlet.data_received(piece)
    elif kind == 3:
        try:
            inlet.skip_to(int(at * 1.1 * (len(inlet.received) + 1)))
        except ValueError:
            speed.calls.append("no such byte")
    elif kind == 4:
        for piece in pieces[:3]:
            inlet.send_frames(piece)
    elif kind == 5:
        turn = speed.turn
        speed.is_broken, turn.has_due_steps, turn._is_taken = at < 0.1, at > 0.7, 0.5 < at < 0.8
        turn.may_leave = None if at < 0.8 else lambda: at < 0.9
        turn.end()
    elif kind == 6:
        inlet._is_writing_paused, inlet._has_frames_left = at < 0.3, at > 0.6
        inlet._transport.stuck = int(at * 20_000)
    else:
        _end_something(speed, inlet, at)


def _end_something(speed: Speed, inlet: Any, at: float) -> None:
    if at < 0.2:
        inlet.closed = True
        return
    inlet.unsettled += 1
    inlet.when_settled = lambda: speed.calls.append("settled")
    if at < 0.6:
        inlet.settled_one()
