"""Acknowledgements of gRPC, driven with random inputs; see `kernel_targets`."""

from random import Random

from kernel_inputs import exact_bytes, expect, mostly, mutated, target


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
    for number in range(mostly(random, 1, 0, 2, 32)):
        request.entries.add(
            message_id=mostly(random, f"ID-{number}", "", "x" * 200),
            receipt_handle=mostly(
                random, random_handle(random), "", "no handle", random_handle(random) + " 1"
            ),
        )
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
