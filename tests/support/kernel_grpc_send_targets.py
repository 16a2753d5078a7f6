"""Sends of gRPC, driven with random inputs; see `kernel_targets`."""

from random import Random
from types import SimpleNamespace
from typing import Any

from kernel_inputs import exact_bytes, expect, module, mostly, mutated, target

TOPICS = ("Orders", "Timed", "t" * 127)


class Sending:
    """A call that the kernel may answer."""

    def __init__(self, random: Random) -> None:
        self.metadata = {"x-mq-client-id": mostly(random, "client-1", "", "büro", "c" * 2000)}
        self.peer = "127.0.0.1:5000"
        self.peer_host_bytes = random.choice((b"\x7f\0\0\x01\0\0\x13\x88", b"\x7f\0\0\x01\0\0\x13\x89"))
        self.answers: list[bytes] = []

    def answer(self, answer: bytes) -> None:
        """Note an answer."""
        self.answers.append(answer)


def random_send(random: Random) -> bytes:
    """Return a SendMessageRequest; some are odd."""
    from pyromq.wire.grpc import grpc_messages as pb

    request = pb.SendMessageRequest()
    for number in range(mostly(random, 1, 0, 2)):
        made = request.messages.add(body=random.randbytes(mostly(random, 20, 0, 5_000)))
        made.topic.name = mostly(random, random.choice(TOPICS), "", "Nowhere", "тема")
        made.topic.resource_namespace = mostly(random, "", "ns")
        system = made.system_properties
        system.message_id = mostly(random, f"ID-{number}", "", "x" * 300, "消息")
        system.message_type = random.choice((0, 1, 2, 3, 9))
        system.tag = mostly(random, "", "A", "a|b")
        system.keys.extend(mostly(random, [], ["k"], ["k"] * 40, [""]))
        system.message_group = mostly(random, "", "order-1", "g" * 80)
        system.born_host = mostly(random, "", "build-7", "h" * 3000)
        system.born_timestamp.seconds = mostly(random, 1_700_000_000, 0, 1 << 60, -5)
        if random.random() < 0.2:
            system.delivery_timestamp.seconds = mostly(random, 1_700_000_060, 0, 1 << 62, -(1 << 62))
            system.delivery_timestamp.nanos = mostly(random, 0, -1, 2_000_000_000)
        for name in range(mostly(random, 0, 3, 70)):
            made.user_properties[f"name-{name}"] = mostly(random, "value", "", "v" * 900)
    return request.SerializeToString()


@target("grpc_sends.GrpcSends", "grpc_sends.SendInlet", "grpc_sends.TopicSends")
def grpc_sends(random: Random) -> None:
    from pyromq.wire.command import Command, CommandReader, encode
    from pyromq.wire.grpc import grpc_messages as pb

    turn = module("inlets").TurnInlets()
    turn._monotonic = lambda: 0.0
    turn.is_planned = True
    around = SimpleNamespace(revision=0)
    refused: list[Any] = []
    sends = module("grpc_sends").GrpcSends(
        turn=turn,
        monotonic=lambda: 0.0,
        now_ms=lambda: 1_700_000_000_000,
        topics=around,
        live=around,
        left=lambda *_: b"left",
        do=lambda call, _data: call.answer(b""),
        refuse=lambda call, _id, frame: refused.append((call, frame)),
        reserved=frozenset((b"name-2",)),
    )
    sends.limit(body_bytes_max=4_000, property_bytes_max=16_384, group_bytes_max=64, delay_ms_max=86_400_000)
    for topic in TOPICS:
        sends.learn(topic.encode(), random.choice((1, 8)), (1, 2, 3), random.randrange(1 << 32))
    taken: list[Sending] = []
    for _ in range(6):
        call = Sending(random)
        if sends.take(call, exact_bytes(mutated(random, random_send(random)))):
            taken.append(call)
    expect(len(taken) == sends.count, "what is taken is counted")
    answered = 0
    for inlet in list(turn.noted):
        reader = CommandReader()
        reader.feed(bytes(inlet.received)[inlet.start :])
        inlet.skip_to(len(inlet.received))
        for frame in iter(reader.next_command, None):
            expect(frame.ext["b"] == frame.ext["a"] and int(frame.ext["e"]) >= 0, "a send to a queue")
            expect(0 < len(frame.body) <= 4_000, "a body within its limit")
            answer = Command(mostly(random, 0, 2, 10), opaque=frame.opaque, flag=1, serializer=1)
            answer.ext = {"msgId": "0" * 32, "queueId": "0", "queueOffset": str(random.getrandbits(40))}
            answer.ext["transactionId"] = mostly(random, "ID-0", "", "x" * 2000)
            inlet.send_frames(encode(answer))
            answered += 1
    expect(answered == len(taken), "a frame for each")
    expect(sum(len(call.answers) for call in taken) + len(refused) == answered, "each is answered once")
    for call in taken:
        for response in call.answers:
            expect(len(pb.SendMessageResponse.FromString(response).entries) == 1, "one entry")
