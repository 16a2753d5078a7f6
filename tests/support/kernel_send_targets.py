"""Sends, and batches that are planned without one, driven with random inputs; see `kernel_targets`."""

from functools import cache
from random import Random
from typing import Any

from kernel_inputs import exact_bytes, expect, module, mostly, number, some, target


@cache
def _send_frames() -> list[bytes]:
    """Return sends as clients write them: plain ones, and those that are left to Python."""
    from pyromq.codes import VERSION, VERSION_5, CommandFlag, RequestCode, Serializer
    from pyromq.wire.batch import BatchUnit, encode_batch
    from pyromq.wire.command import Command, encode
    from pyromq.wire.header import write_header
    from pyromq.wire.headers.send_headers import SendMessage, SendMessageV2

    single = "UNIQ_KEY\x017F00000100010CA5D2F8000000000001\x02WAIT\x01true\x02KEYS\x01a  b\x02TAGS\x01paid"
    many = "\x02".join(f"{name}\x01{name}" for name in "abcdefghijklmn")
    delayed = "KEYS\x01a\x02WAIT\x01true\x02DELAY\x01"
    timed = "UNIQ_KEY\x017F\x02TIMER_DELAY_MS\x01"
    half = "TRAN_MSG\x01true"
    waiting = (
        f"{delayed}3",
        f"{delayed}99\x02{many}",
        f"{timed}700",
        f"{timed}-1",
        half,
        f"{half}\x02{timed}700",
    )
    units = [
        BatchUnit(flag=0, body=b"x" * size, properties=text) for size in (0, 90) for text in ("", single)
    ]
    frames = []
    ids = ("UNIQ_KEY\x01" + "7" * 255, "UNIQ_KEY\x01" + "7" * 256, 'UNIQ_KEY\x01"')
    for properties in (None, "", single, "WAIT\x01false", many, 'q"\\/\x01\t', *ids, *waiting):
        for batch, body in ((False, b"x" * 100), (False, b""), (True, encode_batch(units))):
            fields: dict[str, Any] = {
                "producer_group": "group",
                "topic": "orders",
                "default_topic": "TBW102",
                "default_topic_queue_nums": 8,
                "queue_id": len(frames) % 4,
                "sys_flag": 4 if properties == half else 0,
                "born_timestamp": 1_700_000_000_000,
                "flag": 0,
                "properties": properties,
                "reconsume_times": 0,
                "batch": batch,
            }
            for serializer in Serializer:
                for code, header in (
                    (RequestCode.SEND_MESSAGE, SendMessage(**fields)),
                    (RequestCode.SEND_MESSAGE_V2, SendMessageV2.from_v1(SendMessage(**fields))),
                ):
                    ext, flag = write_header(header), CommandFlag.ONEWAY if properties == "" else 0
                    # Clients of 5.x are answered with their own id of the message.
                    for version in (VERSION, VERSION_5):
                        command = Command(
                            code, opaque=7, flag=flag, ext=ext, body=body, serializer=serializer
                        )
                        command.version = version
                        frames.append(bytes(encode(command)))
    return frames


def a_sends(random: Random, host: bytes) -> Any:
    """Return the kernel's part of a broker's sends."""
    from pyromq.broker.requests.send_shortcut import make_sends

    return make_sends(
        store_host=host,
        cluster="DefaultCluster",
        common_ext={"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"},
        diverting=("DELAY", "TRAN_MSG", "TIMER_DELAY_MS"),
        wait_matters=random.random() < 0.5,
        has_index=random.random() < 0.8,
        body_bytes_max=mostly(random, 4 << 20, 0, 99, 100),
    )


@target(
    "sends.Sends",
    "known.Topic",
    "known.KnownTopics",
    "answers.AnswerHead",
    "diversions.Diversion",
    "inlets.Withheld",
)
def sends(random: Random) -> None:
    from pyromq.wire.record import iter_records

    tails, host = module("tails"), b"\x7f\0\0\x01\0\0\x2a\x9f"
    index, queues = tails.IndexTail(5000, 1 << 20), [tails.QueueTail() for _ in range(6)]
    kernel = a_sends(random, host)
    for _ in range(random.choice((1, 3, 80))):
        kernel.learn(b"other-%d" % random.randrange(200), random.randrange(4), tails.QueueTail(), 0)
    for queue in queues:
        queue.end, queue.watched = random.randrange(1 << 50), random.random() < 0.5
    for _ in range(random.randrange(1, 5)):
        for queue_id, queue in enumerate(queues[:3]):
            kernel.learn(b"orders", queue_id, queue, mostly(random, 0, 2))
        kernel.learn_topic(b"orders", mostly(random, 0, 2), mostly(random, 4, 0))
        _teach_diversions(random, kernel, queues[3:])
        inlets = [_inlet(random, host) for _ in range(mostly(random, 1, 2, 5))]
        starts = [(one, one.start, len(one.received)) for one in inlets]
        first = mostly(random, 0, len(inlets) - 1)
        may_plan = kernel.may_plan(inlets[first:])
        behind = kernel.plan(
            inlets,
            first,
            under_way_max=mostly(random, 1, 0),
            now_ms=number(random),
            log_end=random.randrange(1 << 60),
            log_room=mostly(random, 1 << 30, 0, 500),
            index_room=mostly(random, 1 << 20, 0, 3),
        )
        count = kernel.message_count
        expect(len(list(iter_records(kernel.records))) == count, "records are whole")
        expect(first < behind <= len(inlets), "a plan has an end")
        expect(may_plan or not count, "nothing is planned that may not be")
        expect(all(one.start == start for one, start, _ in starts), "inlets wait for the log")
        if random.random() < 0.3:
            random.choice((kernel.drop, kernel.forget_all, lambda: kernel.forget(b"orders")))()
            continue
        ends = sum(queue.end for queue in queues)
        kernel.apply(index, random.choice((20, 4096)))
        expect(sum(queue.end for queue in queues) == ends + count, "each message has its entry")
        _hand_out(random, kernel, starts)


def _teach_diversions(random: Random, kernel: Any, queues: list[Any]) -> None:
    """Teach three ways to wait, each with a queue."""
    made, host = module("diversions").Diversion, b"broker-a"
    common: dict[str, Any] = {
        "word": None,
        "delays_ms": (),
        "unit_ms": 0,
        "delay_ms_max": 0,
        "due_name": None,
        "excludes": (b"q",),
        "cleared": 12,
        "recalled_by": None,
    }
    level = mostly(random, 3, 1, 18)
    ways = [
        {
            "name": b"DELAY",
            "topic": b"SCHEDULE",
            "delays_ms": tuple(abs(number(random, 60)) for _ in range(level)),
        },
        {"name": b"TIMER_DELAY_MS", "topic": b"t" * 127, "unit_ms": mostly(random, 1, 0, 1000)}
        | {
            "delay_ms_max": mostly(random, (1 << 60) - 1, 10_000, 0),
            "due_name": b"d" * 32,
            "recalled_by": host,
        },
        {"name": b"TRAN_MSG", "topic": b"HALVES", "word": b"true"},
    ]
    for way, queue in zip(ways, queues, strict=True):
        diversion = made(**common | way)
        diversion.learn(level - 1 if way["name"] == b"DELAY" else 0, queue)
        kernel.divert(diversion)


def _hand_out(random: Random, kernel: Any, starts: list[tuple[Any, int, int]]) -> None:
    """Give inlets their answers, in one of three ways, and look at them."""
    from kernel_inlets import answers_of

    from pyromq.wire.command import CommandReader

    way = random.random()
    if way < 0.4:
        kernel.hand_out()
        sends = {}
    elif way < 0.7:
        before = sum(one.unsettled for one, _, _ in starts)
        withheld = kernel.withhold()
        each = withheld.each()
        expect(sum(one.unsettled for one, _, _ in starts) == before + len(each), "what waits is under way")
        expect(not any(answers_of(one) for one, _, _ in starts), "what waits does not leave")
        withheld.let_go()
        expect(sum(one.unsettled for one, _, _ in starts) == before, "what left is not under way")
        sends = {}
    else:
        sends = {one: (answers, count) for one, answers, count in kernel.take()}
        for one, (answers, _) in sends.items():
            one.send_frames(answers)
    expect(not kernel.take(), "answers leave once")
    for one, start, length in starts:
        # What was handled to its end is let go of.
        has_moved = one.start > start or not one.received
        expect(one.start <= length, "a plan ends in what was received")
        answers = answers_of(one)
        reader, answered = CommandReader(), 0
        reader.feed(answers)
        while reader.next_command() is not None:
            answered += 1
        expect(not reader.pending_bytes and (has_moved or not answers), "each inlet has its own answers")
        expect(one not in sends or answered <= sends[one][1], "no more is answered than was sent")


def _inlet(random: Random, host: bytes) -> Any:
    from kernel_inlets import inlet

    received = exact_bytes(some(random, _send_frames(), count_max=6))
    start = mostly(random, 0, 1, len(received), len(received) + 1)
    return inlet(received, start=start, host=mostly(random, host, b""), room=mostly(random, 1 << 20, 0, 300))


@target("refusals.refuse_sends")
def refusals(random: Random) -> None:
    from pyromq.broker.requests.busy import refusal_parts
    from pyromq.wire.command import CommandReader

    before, after, binary = refusal_parts("[OVERLOAD]")
    received = exact_bytes(some(random, _send_frames(), count_max=6))
    start = mostly(random, 0, 1, len(received), len(received) + 1)
    end, answers, count = module("refusals").refuse_sends(
        received,
        start,
        json_before=exact_bytes(before),
        json_after=exact_bytes(after),
        binary=exact_bytes(binary),
        answer_bytes_max=mostly(random, 1 << 20, 0, 300),
    )
    expect(start <= end <= max(start, len(received)), "what is refused is in what was received")
    reader, answered = CommandReader(), 0
    reader.feed(answers)
    while (answer := reader.next_command()) is not None:
        expect((answer.code, answer.remark) == (2, "[OVERLOAD]"), "an answer says that the broker is busy")
        answered += 1
    expect(answered <= count, "no more is answered than was refused")


@cache
def _unit_bodies() -> list[bytes]:
    """Return bodies of batches: plain ones, and those that are left to Python."""
    from pyromq.wire.batch import BatchUnit, encode_batch

    texts = (
        "",
        "TAGS\x01paid",
        "UNIQ_KEY\x01a\x02KEYS\x01a  b\x02",
        "DELAY\x011",
        "a\x01\x02\x01b\x02\x02",
        "s\x01ü",
        "\0",
    )
    return [
        encode_batch([BatchUnit(flag=1, body=b"x" * size, properties=text)] * many)
        for text in texts
        for size, many in ((0, 1), (90, 1), (30, 3))
    ]


@target("plans.Plan", "notes.Notes", "plans.measure_units")
def units(random: Random) -> None:
    from pyromq.wire.record import iter_records

    tails, host = module("tails"), b"\x7f\0\0\x01\0\0\x2a\x9f"
    index, queue = tails.IndexTail(5000, 1 << 20), tails.QueueTail()
    kernel = module("plans").Plan(store_host=host, has_index=random.random() < 0.8)
    for _ in range(random.randrange(1, 5)):
        messages = exact_bytes(some(random, _unit_bodies(), count_max=6))
        measured = module("plans").measure_units(
            messages, (b"DELAY", b"TRAN_MSG"), mostly(random, 20, 0, 32_760)
        )
        planned = kernel.plan_units(
            messages,
            mostly(random, 0, 1, 22, len(messages), len(messages) + 1, -1),
            topic=random.choice((b"orders", b"t" * 127, b"", b"t" * 128)),
            queue_id=mostly(random, 1, -1, 1 << 31),
            queue=queue,
            sys_flag=mostly(random, 1, 4, 16),
            born_at_ms=number(random),
            born_host=random.choice((host, host, host, b"", host * 3)),
            prepared_position=number(random),
            more_properties=random.choice((b"CLUSTER\x01c", b"", b"x" * 32_767)),
            now_ms=number(random),
            log_end=random.randrange(1 << 60),
            log_room=mostly(random, 1 << 30, 0, 500),
            index_room=mostly(random, 1 << 20, 0, 3),
        )
        expect(measured is None or measured[0] * 22 + measured[1] == len(messages), "all bytes are measured")
        expect(planned == kernel.message_count, "what is planned is counted")
        expect(len(list(iter_records(kernel.records))) == planned, "records are whole")
        end = queue.end
        if random.random() < 0.3:
            kernel.drop()
            planned = 0
        else:
            kernel.apply(index, random.choice((20, 4096)))
        expect(queue.end == end + planned, "each message has its entry")
