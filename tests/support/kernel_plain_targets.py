"""Plain sends of a producer and their answers, driven with random inputs; see `kernel_targets`."""

from datetime import datetime
from functools import cache
from random import Random
from typing import Any

from kernel_inputs import cuts, exact_bytes, expect, module, mostly, mutated, number, some, target

TEXTS = ("", "paid", "a b", " a", '"', "\\", "a\x01b", "Åbo", "\ud800", "x" * 500)
NAMES = ("city", "age", '"', "Å", "UNIQ_KEY", "TAGS")


class Line:
    """Makes connections that collect frames; the class is made when the kernel is there."""

    @staticmethod
    @cache
    def kind() -> type:
        inlets = module("inlets")

        class Connection(inlets.Inlet):  # type: ignore[misc, name-defined]
            """A connection without a peer."""

            def __init__(self) -> None:
                turn = inlets.TurnInlets()
                turn.is_planned = True
                super().__init__(turn, lambda: 0.0, 1 << 20, is_caller=True)
                self.waiting: dict[int, Any] = {}
                self.takes_requests = True
                self.opaque = 0

            def next_opaque(self) -> int:
                self.opaque += 1
                return self.opaque

            def expect(self, opaque: int, awaited: Any) -> None:
                self.waiting[opaque] = awaited

        return Connection


class Told:
    """A place for an answer."""

    def __init__(self) -> None:
        self.result: Any = None

    def done(self) -> bool:
        return self.result is not None

    def set_result(self, result: Any) -> None:
        self.result = result


def _teacher(random: Random, links: dict[str, Any]) -> Any:
    from client_stage import two_brokers

    from pyromq.client.plans.route_plans import publish_route
    from pyromq.client.producer.plain_teaching import PlainSendTeacher
    from pyromq.config.settings import ClientSettings

    settings = ClientSettings(access_key="shop", secret_key="secret" * random.randrange(1, 30))
    stage = two_brokers()
    session = stage.session(settings if random.random() < 0.5 else None)
    stage.run(publish_route(session, "orders", session.deadline(None, 3_000)))
    return PlainSendTeacher(session, links)


def _message(random: Random) -> Any:
    from pyromq.model import Message

    def text() -> Any:
        return random.choice(TEXTS) if random.random() < 0.3 else random.choice(("paid", "a", "key-1"))

    def odd(usual: Any) -> Any:
        return usual if random.random() < 0.97 else random.choice((None, 7, b"x", [1], "x", {"a": 1}))

    own = {random.choice(NAMES): text() for _ in range(mostly(random, 0, 1, 2, 3))}
    body = exact_bytes(random.randbytes(mostly(random, 100, 0, 1, 4_095, 5_000)))
    return Message(
        odd("orders"),
        odd(body),
        tags=odd(random.choice((None, text()))),
        keys=odd(random.choice(((), text(), [text() for _ in range(random.randrange(4))]))),
        properties=odd(own),
        flag=odd(mostly(random, 3, number(random, 40))),
    )


def _answers(random: Random, sends: list[Any]) -> list[bytes]:
    from played_broker import answer_to

    from pyromq.wire.command import Command

    frames = []
    for send in sends:
        asked = Command(0, opaque=send.opaque, ext={"e": str(send.lane.wire_queue.queue_id)})
        changes = {"queueOffset": str(number(random))} if random.random() < 0.3 else {}
        frames.append(
            answer_to(asked, mostly(random, 0, 2, 10), mostly(random, 0, 1) * "x" or None, **changes)
        )
    return frames


@target(
    "plain_sends.PlainSends",
    "plain_sends.PlainSend",
    "plain_sends.PlainTopic",
    "plain_sends.Lane",
    "plain_sends.Shape",
    "plain_sends.Pieces",
)
def plain_sends(random: Random) -> None:
    from pyromq.model import SendResult
    from pyromq.wire.command import CommandReader

    line = Line.kind()()
    teacher = _teacher(random, {"a:1": line, "b:1": line})
    kernel, begun = teacher.kernel, []
    for _ in range(random.randrange(1, 8)):
        message = _message(random)
        line.takes_requests = random.random() < 0.95
        for _ in range(2):
            send = kernel.begin(message, Told(), mostly(random, 1_700_000_000_000, 0, 1 << 40), 0.0, 3.0)
            if send is not None or not teacher.learn(message):
                break
        if send is not None and send.frame is not None:
            begun.append((send, message.body))
    reader = CommandReader()
    reader.feed(b"".join(line._out))
    for send, body in begun:
        command = reader.next_command()
        expect(command is not None, "a frame is a command")
        assert command is not None
        expect((command.opaque, command.body) == (send.opaque, body), "it is the message's")
        expect(send.message_id in (command.ext or {})["i"], "it has its id")
    expect(not reader.pending_bytes, "frames are whole")
    if not begun:
        return
    sends = [send for send, _ in begun]
    for piece in cuts(random, some(random, _answers(random, sends))):
        line.feed(exact_bytes(piece))
        length, start = len(line.received), line.start
        took = kernel.take_answers([line])
        expect(line.pending_bytes <= length - start, "it ends in the bytes")
        expect(took == (line.pending_bytes < length - start), "it says whether it took some")
    for send in sends:
        told = send.answer.result
        expect(told is None or type(told) is SendResult, "what is told is a result")
        expect((told is None) == (send.opaque in line.waiting), "it is told once")
        if told is not None:
            expect(told.message_id == send.message_id, "it is that of its message")


@target("unique_ids.UniqueIds")
def unique_ids(random: Random) -> None:
    from pyromq.wire.message_id import UniqueIds

    asked = (random.choice(("127.0.0.1", "2001:db8::1")), random.randrange(1 << 20), random.getrandbits(40))
    compiled, python = module("unique_ids").UniqueIds(*asked), UniqueIds(*asked)
    for _ in range(random.randrange(1, 5)):
        now_ms = random.randrange(int(datetime(2200, 1, 1).timestamp() * 1000))
        expect(compiled.next(now_ms) == python.next(now_ms), "both speeds agree")


@target("plain_sends.pieces that lie")
def pieces_that_lie(random: Random) -> None:
    kernel = module("plain_sends")
    kinds = [mostly(random, random.randrange(33), 33, -1, 1 << 40) for _ in range(random.randrange(5))]
    parts = [(mutated(random, b"text"), kind) for kind in kinds]
    try:
        kernel.Shape(parts, parts)
    except (ValueError, OverflowError):
        expect(any(not 0 <= kind < 33 for kind in kinds), "kinds that are there are taken")
