"""The story that each SDK was told on Apache's broker; what passed is kept in `tests/golden/sdk5`."""

from harness.program import Program
from harness.sdk5.doors import Door
from pyromq.testing.waiting import eventually

#: Rust looks for its queues every 30 s only.
PATIENCE_S = 90

TOPICS = {
    "golden_normal": "NORMAL",
    "golden_fifo": "FIFO",
    "golden_delay": "DELAY",
    "golden_transaction": "TRANSACTION",
}
#: Groups, and whether each is orderly.
GROUPS = {"golden_simple": False, "golden_push": False, "golden_orderly": True, "golden_late": False}


def prepare(door: Door) -> None:
    """Create the story's topics and groups."""
    for topic, kind in TOPICS.items():
        door.create_topic(topic, kind, queues=1)
    for group, orderly in GROUPS.items():
        door.create_group(group, orderly=orderly)


def tell(program: Program) -> None:
    """Have one SDK do once what it can."""
    for kind in ("normal", "fifo", "delay", "transaction"):
        # Each with one topic: some SDKs miss the first settings when there are more.
        program.do("producer", kind, f"golden_{kind}")
    program.do("send", "normal", "normal", "golden_normal", "n", 2)
    program.do("send", "fifo", "fifo", "golden_fifo", "f", 2, "one-group")
    _simple(program)
    _push(program)
    _late(program)
    for name in ("normal", "fifo", "delay", "transaction"):
        program.do("leave", name)


def _simple(program: Program) -> None:
    program.do("simple", "s", "golden_simple", "golden_normal", "*")
    eventually(lambda: _received(program, "s", 2), PATIENCE_S, what="both are received")
    first, second = [event["id"] for event in program.of("received")[:2]]
    if "hide" in program.can:
        program.do("hide", "s", first, 10)
    program.do("ack", "s", second)
    program.do("ack", "s", first)
    program.do("leave", "s")


def _push(program: Program) -> None:
    if "push" not in program.can:
        return
    program.do("push", "o", "golden_orderly", "golden_fifo", "*")
    program.do("push", "c", "golden_push", "golden_normal", "tag-0")
    program.do("send", "normal", "normal", "golden_normal", "fails", 1)
    # Two in order, one with the tag, and one twice.
    eventually(lambda: len(program.of("consumed")) >= 5, PATIENCE_S, what="all are consumed")
    for name in ("o", "c"):
        program.do("leave", name)


def _late(program: Program) -> None:
    program.do("send", "delay", "delay", "golden_delay", "d", 1, 3_000)
    if "recall" in program.can:
        (never, *_) = program.do("send", "delay", "delay", "golden_delay", "r", 1, 60_000)
        program.do("recall", "delay", "golden_delay", never["recall"])
    for body, end in (("now", "commit"), ("never", "rollback"), ("commit-later", "later")):
        program.do("transact", "transaction", "golden_transaction", body, end)
    eventually(lambda: program.of("checked"), PATIENCE_S, what="one is asked about")
    start = len(program.of("received"))
    program.do("simple", "l", "golden_late", "golden_delay", "*")
    eventually(lambda: _received(program, "l", start + 1), PATIENCE_S, what="the delayed one is received")
    program.do("ack", "l", program.of("received")[-1]["id"])
    program.do("leave", "l")
    program.do("simple", "t", "golden_late", "golden_transaction", "*")
    eventually(lambda: _received(program, "t", start + 3), PATIENCE_S, what="what is committed is received")
    for event in program.of("received")[-2:]:
        program.do("ack", "t", event["id"])
    program.do("leave", "t")


def _received(program: Program, member: str, count: int) -> bool:
    # Python's first receive may overtake its settings, which Apache's cannot do without.
    program.refused("receive", member, 16, 60)
    return len(program.of("received")) >= count
