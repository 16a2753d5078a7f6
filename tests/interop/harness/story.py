"""The one story that every client program lives through, and what is left to be looked at afterwards.

A member joins and takes 600 messages; a second joins, and the queues are shared; 400 more come; the second
leaves, and the first has them all again; it leaves too. Then a member of another group reads everything
again, queue by queue in order, and leaves its place to another, which is given what came since; a
third group wants two of three tags only. Between the acts small probes of messages tell who has which queue.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from harness.observer import Observer, Stored
from harness.program import Event, Program
from harness.servers import Cluster
from pyromq.testing.waiting import eventually

QUEUES = 4
PROBE = 16  # messages: two rounds over the queues of two brokers
BATCH = 50
#: Long, because it is only spent when a test fails: a member that missed a notice looks every 20 s.
PATIENCE_S = 90
WANTED_TAGS = ("tag-1", "tag-2")
PROBE_PAUSE_S = 0.25

#: How long a broker may take to hear of what a member that has left said last.
LEAVING_S = 5

Ends = dict[tuple[str, int], int]
Committed = dict[tuple[str, int], int | None]

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
    ends: Ends = field(default_factory=dict)
    committed: Committed = field(default_factory=dict)
    orderly_ends: Ends = field(default_factory=dict)
    orderly_committed: Committed = field(default_factory=dict)
    last_ends: Ends = field(default_factory=dict)
    lite_committed: Committed = field(default_factory=dict)
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
    queues = QUEUES * len(cluster.brokers)
    story.shared = _probe_until(story, observer, lambda probe: _is_shared_evenly(probe, queues))
    _send_all(story, SECOND_ACT)
    _wait_until_consumed(story, "one", "two")
    program.do("leave", "two")
    story.alone = _probe_until(story, observer, lambda probe: _is_all_of("one", probe, queues))
    story.ends, story.committed = _leave(story, observer, "one", story.group, "concurrently")
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
        story.left_behind[group] = _members_left(cluster, observer, group)
    return story


def _members_left(cluster: Cluster, observer: Observer, group: str) -> list[str]:
    """Return who is still in a group; a broker hears of the end of a connection when it comes to it."""
    members: list[str] = []

    def are_gone() -> bool:
        members[:] = [
            member for broker in cluster.brokers.values() for member in observer.members(group, broker)
        ]
        return not members

    with suppress(AssertionError):
        eventually(are_gone, LEAVING_S)
    return members


def _leave(story: Story, observer: Observer, member: str, group: str, how: str) -> tuple[Ends, Committed]:
    """Let a member leave that has been given everything; return where the queues end, and its progress.

    It leaves when its listener has told of the last message, and perhaps before the client has noted that
    the listener came back: then it joins once more, which tells it what is missing.
    """
    ends = observer.ends(story.topic)
    committed: Committed = {}

    def is_complete() -> bool:
        committed.update(observer.committed(group, story.topic))
        return committed == ends

    story.program.do("leave", member)
    try:
        eventually(is_complete, LEAVING_S)
    except AssertionError:
        story.program.do("join", member, group, story.topic, how, "*")
        with suppress(AssertionError):
            eventually(is_complete, PATIENCE_S)
        story.program.do("leave", member)
    return ends, committed


def _read_by_tag(story: Story) -> None:
    story.program.do(
        "join", "five", f"{story.group}_by_tag", story.topic, "concurrently", "||".join(WANTED_TAGS)
    )
    wanted = len([index for index in range(story.total) if f"tag-{index % 3}" in WANTED_TAGS])
    eventually(lambda: len(story.consumed("five")) >= wanted, PATIENCE_S, what=f"{wanted} of {WANTED_TAGS}")
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
        story.orderly_ends, story.orderly_committed = _leave(
            story, observer, member, story.orderly_group, "orderly"
        )


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
        PATIENCE_S,
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
        eventually(lambda: not missing(), PATIENCE_S)
    except AssertionError:
        gone = missing()
        raise AssertionError(
            f"{len(gone)} of {story.total} not seen by {members}: {gone[:20]}\n{story.program.complaint()}"
        ) from None


def _probe_until(story: Story, observer: Observer, is_enough: Callable[[list[Event]], bool]) -> list[Event]:
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
        got = _with_brokers(got, story, observer)
        return got if is_enough(got) else None

    found = eventually(probe, PATIENCE_S, what="the queues move as members come and go")
    assert found is not None
    return found


def _with_brokers(events: list[Event], story: Story, observer: Observer) -> list[Event]:
    """Return the events with the brokers of their messages, which not every client tells."""
    if all(event["broker"] for event in events):
        return events
    brokers = {one.properties["index"]: one.broker for one in observer.stored(story.topic)}
    return [event | {"broker": brokers[event["properties"]["index"]]} for event in events]


def _is_shared_evenly(probe: list[Event], queues: int) -> bool:
    return _is_all_of("one", probe, queues // 2) and _is_all_of("two", probe, queues // 2)


def _is_all_of(member: str, probe: list[Event], queues: int) -> bool:
    """Whether a member got messages of so many queues, and nobody else got any of theirs."""
    owners: dict[tuple[str, int], set[str]] = defaultdict(set)
    for event in probe:
        owners[event["broker"], event["queue"]].add(event["member"])
    return sum(members == {member} for members in owners.values()) == queues


def _look_at_the_store(story: Story, observer: Observer) -> None:
    stored = observer.stored(story.topic)
    story.stored_count = len(stored)
    story.stored = {int(message.properties["index"]): message for message in stored}
    story.last_ends = observer.ends(story.topic)
