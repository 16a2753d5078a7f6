"""The kernel answers acknowledgements as Python does, and leaves to Python what it has not seen done."""

import pytest

from pyromq.broker.requests.ack_shortcut import make_acks
from pyromq.codes import CommandFlag, RequestCode, ResponseCode, Serializer
from pyromq.wire.command import Command, encode

kernel = pytest.importorskip("pyromq._kernel.requests.acks")

from kernel_inlets import answers_of, inlet  # noqa: E402  it needs the kernel

ROOM = 1 << 20
POPPED_AT = 1_700_000_000_000
RETRY = "%RETRY%readers_orders"


def handle(
    offset: int = 5, *, start: int = 0, popped_at: object = POPPED_AT, revive: object = 3, mark: object = 0
) -> str:
    return f"{start} {popped_at} 60000 {revive} {mark} broker-a 3 {offset}"


def asked(
    *,
    opaque: int = 7,
    flag: int = 0,
    code: int = RequestCode.ACK_MESSAGE,
    body: bytes = b"",
    **changes: object,
) -> bytes:
    fields = {"consumerGroup": "readers", "topic": "orders", "queueId": 3, "offset": 5, "extraInfo": handle()}
    ext = {name: str(value) for name, value in (fields | changes).items()}
    return encode(Command(code, opaque=opaque, flag=flag, ext=ext, body=body))


def answered(opaque: int = 7) -> bytes:
    return encode(
        Command(ResponseCode.SUCCESS, opaque=opaque, flag=CommandFlag.RESPONSE, serializer=Serializer.JSON)
    )


class Ended:
    """What was ended of a queue, and an `Acks` that knows it."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.acks = make_acks()
        for topic in ("orders", RETRY):
            self.acks.learn(f"readers\0{topic}\0003\0".encode(), self._end)

    def _end(self, offset: int, popped_at_ms: int) -> bool:
        if popped_at_ms != POPPED_AT or offset in self.offsets:
            return False
        self.offsets.append(offset)
        return True

    def handled(self, received: bytes, room: int = ROOM) -> tuple[int, bytes]:
        """Return how many bytes were handled, and the answers."""
        made = inlet(received, room=room)
        self.acks.answer([made])
        return len(received) - made.pending_bytes, answers_of(made)


def test_messages_are_ended_one_after_the_other() -> None:
    ended = Ended()
    received = b"".join(
        asked(opaque=number, offset=number, extraInfo=handle(number)) for number in range(1, 20)
    )

    assert ended.handled(received) == (len(received), b"".join(answered(number) for number in range(1, 20)))
    assert ended.offsets == list(range(1, 20))


def test_a_handle_of_nine_words_and_a_retry_are_plain_too() -> None:
    ended = Ended()
    nine = asked(extraInfo=f"{handle()} 4711")
    retry = asked(topic=RETRY, offset=6, extraInfo=handle(6, mark=1))

    assert ended.handled(nine + retry) == (len(nine + retry), answered() * 2)
    assert ended.offsets == [5, 6]


@pytest.mark.parametrize(
    "left",
    [
        asked(extraInfo=handle(popped_at=POPPED_AT + 1)),
        asked(extraInfo=handle(revive=999)),
        asked(extraInfo=handle(mark=1)),
        asked(extraInfo=handle(mark=3)),
        asked(extraInfo=handle(start=6)),
        asked(extraInfo=handle(6)),
        asked(extraInfo=handle(popped_at="-1")),
        asked(extraInfo=handle(popped_at="0x1")),
        asked(extraInfo=f"{handle()} 1 2"),
        asked(extraInfo=handle().rpartition(" ")[0]),
        asked(extraInfo=handle().replace(" ", "  ", 1)),
        asked(extraInfo=handle() + " "),
        asked(extraInfo=""),
        asked(extraInfo="1" * 400),
        asked(offset=-1, extraInfo=handle(-1)),
        asked(queueId=4),
        asked(consumerGroup="others"),
        asked(topic="other"),
        asked(flag=CommandFlag.ONEWAY),
        asked(body=b"x"),
        asked(code=RequestCode.CHANGE_MESSAGE_INVISIBLETIME),
        asked()[:-1],
    ],
)
def test_what_is_not_plain_is_left_to_python(left: bytes) -> None:
    ended = Ended()
    first = asked(opaque=1, offset=1, extraInfo=handle(1))

    assert ended.handled(first + left + asked()) == (len(first), answered(1))
    assert ended.offsets == [1]


def test_an_acknowledgement_that_changes_nothing_is_left_to_python() -> None:
    ended = Ended()

    assert ended.handled(asked() + asked()) == (len(asked()), answered())


def test_without_room_nothing_is_answered() -> None:
    ended = Ended()

    assert ended.handled(asked(), room=0) == (0, b"")
    assert ended.offsets == []


def test_what_is_forgotten_is_left_to_python() -> None:
    ended = Ended()
    ended.acks.forget_all()

    assert ended.handled(asked()) == (0, b"")
    assert ended.acks.plan_count == 0
