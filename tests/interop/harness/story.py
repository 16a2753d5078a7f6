"""The one story that every client program lives through, and what is left to be looked at afterwards.

A member joins and takes 600 messages; a second joins, and the queues are shared; 400 more come; the second
leaves, and the first has them all again; it leaves too. Then a member of another group reads everything
again, queue by queue in order, and leaves its place to another, which is given what came since; a
third group wants two of three tags only. Between the acts small probes of messages tell who has which queue.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.observer import Observer, Stored
from harness.program import Event, Program
from harness.servers import Cluster
from pyromq.testing.waiting import eventually

QUEUES = 4
PROBE = 16  # messages: two rounds over the queues of two brokers
BATCH = 50
REBALANCE_TIMEOUT_S = 40
WANTED_TAGS = ("tag-1", "tag-2")
PROBE_PAUSE_S = 0.25
CONSUME_TIMEOUT_S = 40

FIRST_ACT = {"sync": 300, "async": 300}
SECOND_ACT = {"oneway": 100, "batch": 300}


@dataclass
class Story:
    """What happened: the program's own account, and what the observer saw."""

    program: Program
    topic: str
    group: str
    orderly_group: str
    total: int = 0
    shared: list[Event] = field(default_factory=list)  # a probe that both members took part in
    alone: list[Event] = field(default_factory=list)  # a probe after the second had left
    stored: dict[int, Stored] = field(default_factory=dict)
    stored_count: int = 0
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    committed: dict[tuple[str, int], int | None] = field(default_factory=dict)
    orderly_ends: dict[tuple[str, int], int] = field(default_factory=dict)
    orderly_committed: dict[tuple[str, int], int | None] = field(default_factory=dict)
    last_ends: dict[tuple[str, int], int] = field(default_factory=dict)
    lite_committed: dict[tuple[str, int], int | None] = field(default_factory=dict)
    asked: int = 0
    answer: Event = field(default_factory=dict)
    left_behind: dict[str, list[str]] = field(default_factory=dict)
    status: int | None = None

    @property
    def can(self) -> frozenset[str]:
        """What the client has an API for."""
        return self.program.can

    @property
    def sent(self) -> list[Event]:
        """The answers to sends."""
        return self.program.of("sent")

    def consumed(self, *members: str) -> list[Event]:
        """What these members were given, in the order in which they were given it."""
        return [event for event in self.program.of("consumed") if event["member"] in members]


def tell(program: Program, cluster: Cluster, observer: Observer, name: str) -> Story:
    """Run the story to its end; what it found is checked by the tests, one by one."""
    story = Story(program, topic=f"{name}_topic", group=f"{name}_group", orderly_group=f"{name}_orderly")
    _create_topic(story, cluster, observer)
    program.do("join", "one", story.group, story.topic, "concurrently", "*")
    _send_all(story, FIRST_ACT)
    _wait_until_consumed(story, "one", "two")
    program.do("join", "two", story.group, story.topic, "concurrently", "*")
    story.shared = _probe_until(story, _is_shared_evenly)
    _send_all(story, SECOND_ACT)
    _wait_until_consumed(story, "one", "two")
    program.do("leave", "two")
    story.alone = _probe_until(story, lambda probe: {event["member"] for event in probe} == {"one"})
    program.do("leave", "one")
    story.ends, story.committed = observer.ends(story.topic), observer.committed(story.group, story.topic)
    if "orderly" in story.can:
        _read_in_order(story, observer)
    _read_by_tag(story)
    if "litepull" in story.can and not (cluster.kind == "apache-4.9" and name.startswith("java-5")):
        # The 5.x client has a request for it that Apache's 4.9 broker does not know.
        program.do("litepull", "six", f"{name}_lite", story.topic, story.total)
        story.lite_committed = observer.committed(f"{name}_lite", story.topic)
    _look_at_the_store(story, observer)
    if "ask" in story.can:
        _ask(story)
    story.status = program.quit()
    for group in (story.group, story.orderly_group):
        story.left_behind[group] = [
            member for broker in cluster.brokers.values() for member in observer.members(group, broker)
        ]
    return story


def _read_by_tag(story: Story) -> None:
    story.program.do(
        "join", "five", f"{story.group}_by_tag", story.topic, "concurrently", "||".join(WANTED_TAGS)
    )
    wanted = len([index for index in range(story.total) if f"tag-{index % 3}" in WANTED_TAGS])
    eventually(
        lambda: len(story.consumed("five")) >= wanted, CONSUME_TIMEOUT_S, what=f"{wanted} of {WANTED_TAGS}"
    )
    story.program.do("leave", "five")


def _ask(story: Story) -> None:
    index = story.total // 2
    message = story.stored[index]
    story.asked = index
    (story.answer,) = [
        event
        for event in story.program.do(
            "ask", story.topic, f"key-{index}", message.offset_id, message.unique_keys[0], 0
        )
        if event["event"] == "answer"
    ]


def _read_in_order(story: Story, observer: Observer) -> None:
    # One member at a time: a Java client that loses a queue it is busy with keeps its lock for 20 s more.
    for member in ("three", "four") if "takeover" in story.can else ("three",):
        story.program.do("join", member, story.orderly_group, story.topic, "orderly", "*")
        if member == "four":
            _send(story, "sync", PROBE)
        _wait_until_consumed(story, "three", "four")
        story.program.do("leave", member)
    story.orderly_ends = observer.ends(story.topic)
    story.orderly_committed = observer.committed(story.orderly_group, story.topic)


def _create_topic(story: Story, cluster: Cluster, observer: Observer) -> None:
    if "create" in story.can:
        story.program.do("create", story.topic, QUEUES, ",".join(cluster.brokers.values()))
    else:
        _send(story, "sync", PROBE)  # the broker makes the topic at its first message
    eventually(
        lambda: (
            {name: count for name, (_, count) in observer.queues(story.topic).items()}
            == dict.fromkeys(cluster.brokers, QUEUES)
        ),
        what=f"{story.topic} is on every broker",
    )


def _send_all(story: Story, shares: dict[str, int]) -> None:
    for mode, count in shares.items():
        if mode == "batch" and "batch" in story.can:
            for _ in range(count // BATCH):
                _send(story, mode, BATCH)
        else:
            _send(story, mode if mode in story.can else "sync", count)


def _send(story: Story, mode: str, count: int) -> None:
    first = story.total
    story.total += count
    story.program.do("send", mode, story.topic, first, count)


def _wait_until_consumed(story: Story, *members: str) -> None:
    def missing() -> list[int]:
        seen = {int(event["properties"]["index"]) for event in story.consumed(*members)}
        return [index for index in range(story.total) if index not in seen]

    try:
        eventually(lambda: not missing(), CONSUME_TIMEOUT_S)
    except AssertionError:
        gone = missing()
        raise AssertionError(
            f"{len(gone)} of {story.total} not seen by {members}: {gone[:20]}\n{story.program.complaint()}"
        ) from None


def _probe_until(story: Story, is_enough: Callable[[list[Event]], bool]) -> list[Event]:
    """Send a few messages now and then until those who got them are the right ones; return the last probe."""
    due = time.monotonic()

    def probe() -> list[Event] | None:
        nonlocal due
        if time.monotonic() < due:
            return None
        first = story.total
        _send(story, "sync", PROBE)
        _wait_until_consumed(story, "one", "two")
        due = time.monotonic() + PROBE_PAUSE_S
        got = [e for e in story.consumed("one", "two") if int(e["properties"]["index"]) >= first]
        return got if is_enough(got) else None

    found = eventually(probe, REBALANCE_TIMEOUT_S, what="the queues move as members come and go")
    assert found is not None
    return found


def _is_shared_evenly(probe: list[Event]) -> bool:
    owners = {(event["broker"], event["queue"], event["member"]) for event in probe}
    one, two = (sum(member == name for _, _, member in owners) for name in ("one", "two"))
    return one == two


def _look_at_the_store(story: Story, observer: Observer) -> None:
    stored = observer.stored(story.topic)
    story.stored_count = len(stored)
    story.stored = {int(message.properties["index"]): message for message in stored}
    story.last_ends = observer.ends(story.topic)
