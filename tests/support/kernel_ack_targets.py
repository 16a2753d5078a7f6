"""Acknowledgements of popped messages, driven with random inputs; see `kernel_targets`."""

from functools import cache
from random import Random

from kernel_inputs import exact_bytes, expect, mostly, some, target

POPPED_AT = 1_700_000_000_000


@cache
def _frames() -> list[bytes]:
    from pyromq.codes import RequestCode
    from pyromq.wire.command import Command, encode

    place = {"consumerGroup": "readers", "topic": "orders", "queueId": "0"}
    handles = [
        f"0 {POPPED_AT} 60000 3 0 broker-a 0 5",
        f"0 {POPPED_AT} 60000 3 0 broker-a 0 5 4711",
        f"0 {POPPED_AT + 1} 60000 3 0 broker-a 0 5",
        f"0 {POPPED_AT} 60000 3 1 broker-a 0 5",
        f"0 {POPPED_AT} 60000 999 0 broker-a 0 5",
        f"6 {POPPED_AT} 60000 3 0 broker-a 0 5",
        f"0 {POPPED_AT} 60000 3 0 broker-a 0 5 1 2 3",
        "0 1 2",
        "",
        " " * 20,
        "9" * 300,
        "0 1 2 3 0 é 0 5",
    ]
    asked = [place | {"offset": "5", "extraInfo": handle} for handle in handles]
    asked += [asked[0] | {"offset": offset} for offset in ("6", "-1", "x", str(1 << 62))]
    asked += [asked[0] | {"topic": topic} for topic in ("%RETRY%readers_orders", "%RETRY", "other")]
    asked += [asked[3] | {"topic": "%RETRY%readers_orders"}, place]
    return [
        bytes(encode(Command(code, opaque=7, flag=flag, ext=ext)))
        for ext in asked
        for code in (RequestCode.ACK_MESSAGE, RequestCode.POP_MESSAGE)
        for flag in (0, 2)
    ]


@target("acks.Acks")
def acks(random: Random) -> None:
    from kernel_inlets import answers_of, inlet

    from pyromq.broker.requests.ack_shortcut import make_acks
    from pyromq.wire.command import CommandReader

    kernel = make_acks()
    ended: list[tuple[int, int]] = []

    def end(offset: int, popped_at_ms: int) -> bool:
        if popped_at_ms != POPPED_AT or random.random() < 0.1:
            return False
        ended.append((offset, popped_at_ms))
        return True

    for topic in (b"orders", b"%RETRY%readers_orders"):
        kernel.learn(b"readers\0" + topic + b"\0000\0", end)
    for _ in range(random.randrange(1, 5)):
        received = exact_bytes(some(random, _frames()))
        start = mostly(random, 0, 1, len(received), len(received) + 1)
        inlets = [
            inlet(received, start=start, room=mostly(random, 1 << 20, 0, 100))
            for _ in range(mostly(random, 1, 0, 3))
        ]
        lengths = [len(one.received) for one in inlets]
        before = len(ended)
        count = kernel.answer(inlets)
        expect(count == len(ended) - before, "each answer ended a message")
        expect(
            all(one.start <= end for one, end in zip(inlets, lengths, strict=True)), "it ends in the bytes"
        )
        answers = 0
        for one in inlets:
            reader = CommandReader()
            reader.feed(answers_of(one))
            while reader.next_command() is not None:
                answers += 1
            expect(not reader.pending_bytes, "answers are whole")
        expect(answers == count, "each acknowledgement has an answer")
        if random.random() < 0.2:
            kernel.forget_all()
