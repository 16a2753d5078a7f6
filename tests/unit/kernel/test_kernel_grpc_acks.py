"""The kernel reads and answers acknowledgements of gRPC as Python does, and leaves what is not plain."""

from random import Random

import pytest
from effort import times
from kernel_grpc_ack_targets import random_ack, random_handle

from pyromq.broker.grpc.consuming.consume_acks import AckHandlers
from pyromq.broker.pop.pop_asks import AckResult
from pyromq.errors import HeaderError
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.receipt_handle import ReceiptHandle, decode_receipt_handle

acks = pytest.importorskip("pyromq._kernel.requests.grpc_acks")
in_flight = pytest.importorskip("pyromq._kernel.storage.in_flight")

POPPED_AT = 1_700_000_000_000

NAMES = ("start_offset", "popped_at_ms", "invisible_ms", "revive_queue_id", "mark", "broker_name", "queue_id")
WORDS = (*NAMES, "offset", "position", "visible_at_ms", "is_fifo")


def request_of(*handles: str, group: str = "readers", topic: str = "Orders") -> pb.AckMessageRequest:
    return pb.AckMessageRequest(
        group=pb.Resource(name=group),
        topic=pb.Resource(name=topic),
        entries=[
            pb.AckMessageEntry(message_id=f"ID-{number}", receipt_handle=handle)
            for number, handle in enumerate(handles)
        ],
    )


def python_s(data: bytes) -> tuple[str, str, list[ReceiptHandle], bytes] | None:
    """What Python makes of a request all of whose handles are of this broker."""
    request = pb.AckMessageRequest.FromString(data)
    try:
        handles = [decode_receipt_handle(entry.receipt_handle) for entry in request.entries]
    except HeaderError:
        return None
    if not handles or any(handle.broker_name != "broker-a" for handle in handles):
        return None
    response = AckHandlers.respond(None, data, [AckResult.OK] * len(handles))  # type: ignore[arg-type]
    return request.group.name, request.topic.name, handles, response.SerializeToString()


def words_of(handle: ReceiptHandle) -> list[object]:
    return [getattr(handle, word) for word in WORDS]


def test_random_requests_are_the_same() -> None:
    random, read = Random(7), 0
    for _ in range(times(3_000)):
        data = random_ack(random)
        found = acks.read_ack(data, b"broker-a", "broker-a")
        if found is None:
            continue
        expected = python_s(data)
        assert expected is not None
        assert found[:2] == expected[:2]
        assert [words_of(handle) for handle in found[2]] == [words_of(handle) for handle in expected[2]]
        assert found[3] == expected[3]
        read += 1
    assert read > times(500)


@pytest.mark.parametrize("count", [1, 2, 31, 32, 64])
def test_whole_batches_are_read(count: int) -> None:
    random = Random(count)
    data = request_of(*(random_handle(random) for _ in range(count))).SerializeToString()

    found = acks.read_ack(data, b"broker-a", "broker-a")
    assert found is not None
    assert found[3] == python_s(data)[3]  # type: ignore[index]
    real = [handle.real_topic("readers", "Orders") for handle in found[2]]
    assert real == [decode_receipt_handle(handle.receipt_handle).real_topic("readers", "Orders")
                    for handle in pb.AckMessageRequest.FromString(data).entries]  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xff",
        request_of().SerializeToString(),
        request_of("").SerializeToString(),
        request_of("x").SerializeToString(),
        request_of("0 1 2 3 0 broker-z 0 0 0").SerializeToString(),
        request_of("5 1 2 3 0 broker-a 0 4 0").SerializeToString(),
        request_of("0 1 2 3 3 broker-a 0 0 0").SerializeToString(),
        request_of("0 1 2 3 0 broker-a 0 0 0 0").SerializeToString(),
        request_of("0 1 2 3 0 broker-a 0 0 -1").SerializeToString(),
        request_of("0 1 2 3 0 broker-a 0 0 ").SerializeToString(),
        request_of("0 1 2 3 0 broker-a 0").SerializeToString(),
        request_of("0 1 2 3 0 broker-a 4294967296 0").SerializeToString(),
        request_of("0 1 2 3 0 broker-a 0 0 0", group="").SerializeToString(),
        request_of("0 1 2 3 0 broker-a 0 0 0", group="grün").SerializeToString(),
        request_of("0 1 2 3 0 broker-a 0 0 0", topic="a\x00b").SerializeToString(),
        request_of(*["0 1 2 3 0 broker-a 0 0 0"] * 65).SerializeToString(),
        pb.AckMessageRequest(
            group=pb.Resource(name="g"),
            topic=pb.Resource(name="t"),
            entries=[pb.AckMessageEntry(receipt_handle="0 1 2 3 0 broker-a 0 0 0", lite_topic="l")],
        ).SerializeToString(),
    ],
)
def test_what_is_not_plain_is_python_s(data: bytes) -> None:
    assert acks.read_ack(data, b"broker-a", "broker-a") is None


def test_every_cut_of_a_request_is_python_s() -> None:
    data = request_of("0 1 2 3 0 broker-a 0 0 0").SerializeToString()
    whole = acks.read_ack(data, b"broker-a", "broker-a")
    for end in range(len(data)):
        assert acks.read_ack(data[:end], b"broker-a", "broker-a") is None
    assert whole is not None


class Answering:
    """A `GrpcAcks` that knows one queue, and what it leaves."""

    def __init__(self) -> None:
        self.columns = in_flight.InFlight()
        self.columns.add(range(10), POPPED_AT, POPPED_AT + 60_000)
        self.noted: list[int] = []
        self.revision = self.turn_number = 0
        self.now_ms, self.max_invisible_time_mills = POPPED_AT + 1_000, 43_200_000
        self.turn: int | None = 0
        self.asked = 0
        self.metadata = {"x-mq-client-id": "client-1"}
        self.kernel = acks.GrpcAcks(
            broker=b"broker-a",
            topics=self,
            changes=self,
            turn_of=self._turn_of,
            left=lambda *_: b"left",
            left_change=lambda *_: b"left",
            now_ms=lambda: self.now_ms,
            settings=self,
        )
        self.kernel.ack(self, b"")
        self.learn()

    def learn(self) -> None:
        """Tell the queue."""
        self.kernel.learn(b"readers", b"Orders", 0, 3, in_flight.DeliveryEnding(self.columns, self._note))

    def _note(self) -> None:
        self.columns.noted = self.noted

    def _turn_of(self) -> int | None:
        self.asked += 1
        return self.turn

    def acknowledged(self, *offsets: int, popped_at: int = POPPED_AT, **names: str) -> bool:
        """Acknowledge messages; return whether the kernel answered, with the answer that Python gives."""
        handles = [f"0 {popped_at} 60000 3 0 broker-a 3 {offset} 7" for offset in offsets]
        data = request_of(*handles, **names).SerializeToString()
        response = self.kernel.ack(self, data)
        if response == b"left":
            return False
        assert response == python_s(data)[3]  # type: ignore[index]
        return True


def test_messages_in_flight_end_and_are_noted() -> None:
    kernel = Answering()

    assert kernel.acknowledged(4)
    assert kernel.acknowledged(0, 1, 9, 5)
    assert kernel.noted == [4, 0, 1, 9, 5]
    assert [kernel.columns.find(offset) >= 0 for offset in range(10)] == [
        offset not in kernel.noted for offset in range(10)
    ]
    assert (kernel.kernel.answered, kernel.asked) == (2, 1)


def test_a_request_that_python_is_to_answer_changes_nothing() -> None:
    kernel = Answering()

    assert not kernel.acknowledged(1, 10)
    assert not kernel.acknowledged(1, 2, 1)
    assert not kernel.acknowledged(2, 1, 1)
    assert not kernel.acknowledged(1, popped_at=POPPED_AT + 1)
    assert not kernel.acknowledged(1, group="others")
    assert not kernel.acknowledged(1, topic="Order")
    kernel.metadata = {}
    assert not kernel.acknowledged(1)
    kernel.metadata = {"x-mq-client-id": " "}
    assert not kernel.acknowledged(1)
    assert kernel.noted == []
    assert kernel.columns.count == 10


def test_each_turn_asks_whether_answers_may_be_given() -> None:
    kernel = Answering()
    assert kernel.acknowledged(0)
    assert kernel.acknowledged(1)
    kernel.turn_number, kernel.turn = 1, None
    assert not kernel.acknowledged(2)
    kernel.turn = 1
    assert kernel.acknowledged(2)

    assert kernel.asked == 3


def test_a_topic_that_changed_is_python_s_until_it_is_learnt_again() -> None:
    kernel = Answering()
    kernel.revision = 1

    assert not kernel.acknowledged(0)
    assert kernel.kernel.place_count == 0
    kernel.learn()
    assert kernel.acknowledged(0)


def test_a_queue_that_is_forgotten_ends_nothing() -> None:
    kernel = Answering()
    kernel.columns.clear()

    assert not kernel.acknowledged(0)


# Changes of invisible times ---------------------------------------------------------------------------------


class Changing(Answering):
    """The same, for changes: the time that a message has is noted."""

    def __init__(self) -> None:
        super().__init__()
        self.moved: list[tuple[int, int, int]] = []
        ending = in_flight.DeliveryEnding(self.columns, self._note)
        self.kernel.learn_change(b"readers", b"Orders", 0, 3, ending, lambda *move: self.moved.append(move))

    def changed(self, handle: str, ms: int | None = 30_000, **more: object) -> str | None:
        """Change a message's time; return its new handle, None when Python is to do it."""
        response = self.kernel.change(self, change_of(handle, ms, **more))
        if response == b"left":
            return None
        answered = pb.ChangeInvisibleDurationResponse.FromString(response)
        assert (answered.status.code, answered.status.message) == (20_000, "OK")
        assert answered.SerializeToString() == response
        return answered.receipt_handle


def change_of(
    handle: str, ms: int | None, group: str = "readers", topic: str = "Orders", **more: object
) -> bytes:
    request = pb.ChangeInvisibleDurationRequest(
        group=pb.Resource(name=group), topic=pb.Resource(name=topic), receipt_handle=handle, **more
    )
    if ms is not None:
        request.invisible_duration.FromMilliseconds(ms)
    return request.SerializeToString()


def handle_of(offset: int, popped_at: int = POPPED_AT, position: int = 7, mark: int = 0) -> str:
    return f"0 {popped_at} 60000 3 {mark} broker-a 3 {offset} {position}"


@pytest.mark.parametrize(
    ("ms", "since", "moved"),
    [
        (30_000, 1_000, (4, POPPED_AT + 1_000, 30_000)),
        # A second at least, as with any change.
        (0, 1_000, (4, POPPED_AT + 1_000, 1_000)),
        (None, 1_000, (4, POPPED_AT + 1_000, 1_000)),
        (43_200_000, 1_000, (4, POPPED_AT + 1_000, 43_200_000)),
        # In the millisecond of the pop, or when the clock was set back, the handle is another one too.
        (30_000, 0, (4, POPPED_AT + 1, 29_999)),
        (30_000, -5_000, (4, POPPED_AT + 1, 24_999)),
        (1_000, -5_000, (4, POPPED_AT + 1, 0)),
    ],
)
def test_a_message_is_given_another_time(ms: int | None, since: int, moved: tuple[int, int, int]) -> None:
    kernel = Changing()
    kernel.now_ms = POPPED_AT + since

    handle = kernel.changed(handle_of(4), ms, message_id="ID-4")

    assert kernel.moved == [moved]
    assert handle is not None
    assert decode_receipt_handle(handle) == ReceiptHandle(4, moved[1], moved[2], 3, 0, "broker-a", 3, 4, 7)
    assert kernel.kernel.changed == 1


@pytest.mark.parametrize(
    ("handle", "ms", "more"),
    [
        (handle_of(10), 30_000, {}),
        (handle_of(4, popped_at=POPPED_AT + 1), 30_000, {}),
        (handle_of(4, position=0), 30_000, {}),
        (handle_of(4, mark=1), 30_000, {}),
        ("", 30_000, {}),
        ("no handle", 30_000, {}),
        (handle_of(4).replace("broker-a", "broker-b"), 30_000, {}),
        (handle_of(4), 43_200_001, {}),
        (handle_of(4), -1, {}),
        (handle_of(4), 30_000, {"lite_topic": "l"}),
        (handle_of(4), 30_000, {"suspend": True}),
        (handle_of(4), 30_000, {"message_id": "büro"}),
        (handle_of(4), 30_000, {"group": "others"}),
        (handle_of(4), 30_000, {"topic": "Order"}),
    ],
)
def test_a_change_that_python_is_to_answer_changes_nothing(
    handle: str, ms: int, more: dict[str, object]
) -> None:
    kernel = Changing()

    assert kernel.changed(handle, ms, **more) is None
    assert kernel.moved == []


def test_a_change_needs_a_client_and_a_turn_as_acknowledgements_do() -> None:
    kernel = Changing()
    kernel.metadata = {}
    assert kernel.changed(handle_of(4)) is None
    kernel.metadata = {"x-mq-client-id": "client-1"}
    kernel.turn_number, kernel.turn = 1, None
    assert kernel.changed(handle_of(4)) is None
    kernel.turn = 1
    assert kernel.changed(handle_of(4)) is not None
    kernel.revision = 1
    assert kernel.changed(handle_of(5)) is None


def test_every_cut_of_a_change_is_python_s() -> None:
    kernel = Changing()
    data = change_of(handle_of(4), None)
    for end in range(len(data)):
        assert kernel.kernel.change(kernel, data[:end]) == b"left"
    assert kernel.kernel.change(kernel, data) != b"left"
