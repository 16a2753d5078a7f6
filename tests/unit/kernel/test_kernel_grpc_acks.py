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
