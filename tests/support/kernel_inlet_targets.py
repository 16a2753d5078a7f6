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
        speed = self

        class Turning(kind.TurnInlets):  # type: ignore[misc, name-defined]
            def plan_end(self) -> None:
                speed.calls.append("plan the end")
                self.is_planned = True

        class Linked(kind.Inlet):  # type: ignore[misc, name-defined]
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

        self.turn = Turning()
        self.turn._monotonic = lambda: self.now
        self.inlets = [Linked(self.turn, lambda: self.now, 1000, is_caller=is_caller) for _ in range(count)]
        for number, inlet in enumerate(self.inlets):
            inlet.number, inlet._transport = number, Transport()

    def end_turn(self) -> list[int]:
        """End the turn as `Turn` does; return the inlets with bytes left."""
        noted = self.turn.take_noted()
        self.calls.append(noted and self.kind.waiting_since(noted))
        with_bytes = [inlet.number for inlet in self.kind.with_bytes(noted, 2)]
        left = [inlet.number for inlet in self.kind.left_over(noted)]
        turn = self.turn
        if turn.began_at is not None:
            turn.looked_at, turn._ended_at, turn.began_at = turn.began_at, self.now, None
            turn._is_idle = self.now % 2 == 0
        turn.is_planned = False
        self.kind.end_turn_of(turn.take_joined(), self.now)
        return [*with_bytes, -1, *left]

    def state(self) -> list[Any]:
        return [
            self.calls,
            [inlet.number for inlet in self.turn.noted],
            [inlet.number for inlet in self.turn.joined],
            (self.turn.began_at, self.turn.looked_at, self.turn.is_planned),
            *(
                (
                    bytes(inlet.received), inlet.start, inlet.closed, inlet.waits_since, inlet.read_at,
                    inlet._active_at, inlet.answer_room(), inlet._turn_bytes, inlet._transport.writes,
                    inlet.under_way_count, inlet.pending_bytes,
                )
                for inlet in self.inlets
            ),
        ]  # fmt: skip


@target(
    "inlets.Inlet", "inlets.TurnInlets", "inlets.left_over", "inlets.end_turn_of", "inlets.waiting_since",
    "inlets.with_bytes",
)  # fmt: skip
def inlets(random: Random) -> None:
    from pyromq.net import inlet as in_python

    count, is_caller = mostly(random, 2, 1, 5), random.random() < 0.1
    speeds = [Speed(kind, count, is_caller=is_caller) for kind in (module("inlets"), in_python)]
    for speed in speeds:
        speed.turn.shortcut = len
    for step in range(random.choice((3, 20, 60))):
        number, data = random.randrange(count), random.randbytes(random.choice((1, 30, 400, 17_000, 90_000)))
        kind, at = random.randrange(8), random.random()
        pieces = [exact_bytes(piece) for piece in cuts(random, data) if piece]
        for speed in speeds:
            speed.now = float(step)
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
        speed.calls.append(speed.end_turn())
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
