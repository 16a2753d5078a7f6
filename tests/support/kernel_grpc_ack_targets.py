"""Acknowledgements of gRPC, driven with random inputs; see `kernel_targets`."""

from collections.abc import Callable
from random import Random
from typing import Any

from kernel_inputs import exact_bytes, expect, module, mostly, mutated, number, target


def random_handle(random: Random) -> str:
    """Return a receipt handle, of this broker or nearly one."""
    offset = random.choice((0, 7, 1 << 40))
    words: list[object] = [
        random.choice((0, offset)),
        random.choice((0, 1_700_000_000_000)),
        random.choice((10_000, 60_000)),
        random.choice((0, 7, 999)),
        random.choice((0, 0, 1, 2)),
        "broker-a",
        random.choice((0, 3, 300)),
        offset,
    ]
    if random.random() < 0.9:
        words.append(random.choice((0, 5_000, 1 << 50)))
    return " ".join(map(str, words))


def random_ack(random: Random) -> bytes:
    """Return an AckMessageRequest; some are odd."""
    from pyromq.wire.grpc import grpc_messages as pb

    request = pb.AckMessageRequest(
        group=pb.Resource(name=mostly(random, "readers", "", "büro", "g" * 120)),
        topic=pb.Resource(
            name=mostly(random, "Orders", "t" * 127), resource_namespace=mostly(random, "", "ns")
        ),
    )
    for place in range(mostly(random, 1, 0, 2, 32)):
        request.entries.add(
            message_id=mostly(random, f"ID-{place}", "", "x" * 200),
            receipt_handle=mostly(
                random, random_handle(random), "", "no handle", random_handle(random) + " 1"
            ),
        )
    return request.SerializeToString()


def random_change(random: Random) -> bytes:
    """Return a ChangeInvisibleDurationRequest; some are odd."""
    from pyromq.wire.grpc import grpc_messages as pb

    request = pb.ChangeInvisibleDurationRequest(
        group=pb.Resource(name=mostly(random, "readers", "", "büro")),
        topic=pb.Resource(name=mostly(random, "Orders", "t" * 127)),
        receipt_handle=mostly(random, random_handle(random), "", "no handle", random_handle(random) + " 1"),
        message_id=mostly(random, "ID-1", "", "x" * 200),
    )
    if random.random() < 0.9:
        request.invisible_duration.seconds = mostly(random, 30, 0, -1, 43_200, 43_201, 1 << 50)
        request.invisible_duration.nanos = mostly(random, 0, 999_999_999, -1)
    if random.random() < 0.05:
        request.lite_topic = "l"
    return request.SerializeToString()


@target("grpc_acks.read_ack", "grpc_acks.AckHandle")
def acknowledgements(random: Random) -> None:
    from pyromq._kernel.requests.grpc_acks import read_ack
    from pyromq.wire.grpc import grpc_messages as pb

    for _ in range(4):
        data = exact_bytes(mutated(random, random_ack(random)))
        read = read_ack(data, exact_bytes(b"broker-a"), "broker-a")
        if read is None:
            continue
        _, _, handles, response = read
        answered = pb.AckMessageResponse.FromString(response)
        expect(len(answered.entries) == len(handles), "an entry for each")
        for handle in handles:
            expect(handle.start_offset <= handle.offset and handle.mark in (0, 1, 2), "a sound handle")
            handle.real_topic("readers", "Orders")


class Acknowledging:
    """As much of a call, of topics and of POP as the kernel looks at."""

    def __init__(self, random: Random) -> None:
        self.metadata = {"x-mq-client-id": mostly(random, "client-1", "", "c" * 2000)}
        self.revision = self.turn_number = 0
        self.max_invisible_time_mills = 43_200_000


@target("grpc_acks.GrpcAcks", "in_flight.InFlight", "in_flight.Tally", "in_flight.DeliveryEnding")
def answered_acknowledgements(random: Random) -> None:
    from pyromq.wire.grpc import grpc_messages as pb

    in_flight = module("in_flight")
    tally, around = in_flight.Tally(), Acknowledging(random)
    kernel = module("grpc_acks").GrpcAcks(
        broker=b"broker-a",
        topics=around,
        changes=around,
        turn_of=lambda: mostly(random, around.turn_number, None),
        left=lambda *_: b"",
        left_change=lambda *_: b"",
        now_ms=lambda: 1_700_000_001_000,
        settings=around,
    )
    kernel.ack(around, b"")
    queues = []
    for place in (0, 3, 300):
        queue = in_flight.InFlight(tally)
        queues.append(queue)
        ending = in_flight.DeliveryEnding(queue, lambda queue=queue: setattr(queue, "noted", []))
        for mark in (0, 1, 2):
            kernel.learn(b"readers", b"Orders", mark, place, ending)
            kernel.learn_change(b"readers", b"Orders", mark, place, ending, mover(queue))
    for _ in range(random.randrange(1, 12)):
        queue = random.choice(queues)
        offsets = [offset for offset in (0, 7, 1 << 40) if offset > queue.last]
        if offsets:
            queue.add(offsets, random.choice((0, 1_700_000_000_000)), 1_700_000_060_000)
        before = sum(len(queue.noted or ()) for queue in queues)
        data = exact_bytes(mutated(random, random_ack(random)))
        answered = kernel.ack(around, data)
        noted = sum(len(queue.noted or ()) for queue in queues) - before
        expect((answered != b"") == (noted > 0), "what is answered has ended something")
        changed = kernel.change(around, exact_bytes(mutated(random, random_change(random))))
        if changed:
            sound_change(pb.ChangeInvisibleDurationResponse.FromString(changed))
        expect(tally.count == sum(queue.count for queue in queues), "all are counted")
        odd_work(random, queue)
    expect(tally.take_acknowledged() == sum(len(queue.noted or ()) for queue in queues), "each is counted")


def mover(queue: Any) -> Callable[[int, int, int], None]:
    """Return what gives a message of a queue another time."""

    def move(offset: int, popped_at_ms: int, invisible_ms: int) -> None:
        at = queue.find(offset)
        expect(at >= 0 and popped_at_ms > queue.popped_at_ms(at) and invisible_ms >= 0, "a message in flight")
        queue.move(at, popped_at_ms, popped_at_ms + invisible_ms)

    return move


def sound_change(response: Any) -> None:
    """Expect the handle that a change is answered with to be one."""
    from pyromq.wire.receipt_handle import decode_receipt_handle

    handle = decode_receipt_handle(response.receipt_handle)
    expect(handle.offset == handle.start_offset and handle.position > 0, "the message's own handle")


def odd_work(random: Random, queue: Any) -> None:
    """Do what else happens to a queue, at places that may not be there."""
    at = random.randrange(-2, 6)
    try:
        random.choice(
            (
                lambda: queue.end(at),
                lambda: queue.move(at, 5, 6),
                lambda: queue.renew(at, 6, keeps_client=False),
                lambda: queue.restore(queue.columns()),
                lambda: queue.restore((b"", exact_bytes(b"1" * 8), b"", b"")),
                lambda: queue.due_from(number(random), 1 << 60, mostly(random, 32, 0, 1 << 62)),
                lambda: queue.end_before(number(random)),
                queue.open_places,
                queue.clients,
                queue.clear,
                lambda: [
                    queue.add([n], 0, 0) for n in range(queue.last + 1, min(queue.last, 1 << 41) + 3_000)
                ],
            )
        )()
    except (IndexError, ValueError):
        return
