"""Inlets with received bytes, for what the kernel plans and answers."""

from pyromq._kernel.codec.inlets import Inlet, TurnInlets

HOST = b"\x7f\0\0\x01\0\0\x2a\x9f"


class QuietTurn(TurnInlets):
    """A turn that nothing ends."""

    def __init__(self) -> None:
        super().__init__()
        self.is_planned = True


def inlet(received: bytes, *, start: int = 0, host: bytes = HOST, room: int = 1 << 30) -> Inlet:
    """Return an inlet that received bytes, and whose next frame begins at byte `start` of them."""
    made = Inlet(QuietTurn(), lambda: 0.0, room)
    made.peer_host_bytes = host
    made.feed(received)
    if start:
        made.skip_to(min(start, len(received)))
    return made


def answers_of(some: Inlet) -> bytes:
    """Return what would be written to the peer."""
    return b"".join(some._out)
