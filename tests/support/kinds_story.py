"""Stories of delayed messages, transactions and messages that are sent back, and what each promised.

A story runs on a broker in this process whose disk remembers all that was done to it; the promises stand in
the disk's journal as marks. Another broker is then started on what a crash at any moment leaves, and must
keep every promise that was made before it, and deliver nothing twice (`keep_promises`).
"""

import copy
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from kinds_stage import ManualStage, Peer, running_stage, settle

from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.choices import FlushDiskType
from pyromq.testing.disk import SimulatedDisk
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually
from pyromq.wire.command import Command
from pyromq.wire.message_id import parse_offset_message_id

ROOT = Path("/store")
PRODUCERS, READERS = "payers", "shop"
RETRY, DEAD, GIVEN_UP = "%RETRY%shop", "%DLQ%shop", "TRANS_CHECK_MAX_TIME_TOPIC"
COMMIT, ROLLBACK = 8, 12
INTERVAL_MS = 60_000
SETTINGS: dict[str, object] = {
    "mapped_file_size_commit_log": 4096,
    "mapped_file_size_consume_queue": 400,
    "max_hash_slot_num": 20,
    "max_index_num": 100,
    "flush_disk_type": FlushDiskType.SYNC_FLUSH,
    "transaction_check_max": 2,
}


@dataclass
class Half:
    """A half message that was acknowledged, and what its producer tried to make of it."""

    offset: int
    position: int
    tried: int | None = None
    is_ended: bool = False


@dataclass
class Promised:
    """What the broker acknowledged so far, by the bodies of messages."""

    delayed: set[bytes] = field(default_factory=set)
    retried: set[bytes] = field(default_factory=set)
    buried: set[bytes] = field(default_factory=set)
    halves: dict[bytes, Half] = field(default_factory=dict)
    given_up: set[bytes] = field(default_factory=set)


class Story:
    """A client, what it does, and what it is promised."""

    def __init__(self, stage: ManualStage, disk: SimulatedDisk) -> None:
        self.stage = stage
        self.client = stage.connect()
        self.promised = Promised()
        self.disk = disk

    def mark(self) -> None:
        """Note in the disk's journal what is promised from here on."""
        self.disk.mark(copy.deepcopy(self.promised))

    async def send_later(self, body: bytes) -> None:
        """Send a message with a delay of one second."""
        answer = await self.client.send("later", body, properties={"DELAY": "1"})
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        self.promised.delayed.add(body)
        self.mark()

    async def send_back(self, body: bytes, *, level: int) -> None:
        """Send a message and, as one who read it, send it back."""
        sent = await self.client.send("orders", body)
        fields = {"offset": position_of(sent), "group": READERS, "delayLevel": level}
        answer = await self.client.request(RequestCode.CONSUMER_SEND_MSG_BACK, fields)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        (self.promised.buried if level < 0 else self.promised.retried).add(body)
        self.mark()

    async def send_half(self, body: bytes) -> None:
        """Begin a transaction."""
        properties = {"TRAN_MSG": "true", "PGROUP": PRODUCERS}
        sent = await self.client.send("paid", body, group=PRODUCERS, sys_flag=4, properties=properties)
        assert sent.code == ResponseCode.SUCCESS, sent.remark
        self.promised.halves[body] = Half(int((sent.ext or {})["queueOffset"]), position_of(sent))
        self.mark()

    async def end(self, body: bytes, fate: int) -> None:
        """End a transaction."""
        half = self.promised.halves[body]
        half.tried = fate
        self.mark()
        answer = await end(self.client, half, fate)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        half.is_ended = True
        self.mark()

    async def await_questions(self, count: int) -> None:
        """Let an interval pass, after which the broker has asked so often."""
        self.stage.clock.advance(INTERVAL_MS)
        await aeventually(lambda: len(questions(self.client)) >= count)


async def delays(story: Story) -> None:
    """Tell of messages that wait, are delivered, and of progress that is saved in between."""
    for body in (b"a", b"b", b"c"):
        await story.send_later(body)
    story.stage.clock.advance(1_000)
    await story.client.await_stored("later", 3)
    await story.send_later(b"d")
    story.stage.clock.advance(10_000)
    await story.client.await_stored("later", 4)
    await aeventually(lambda: story.stage.folder / "config" / "delayOffset.json" in story.disk.image())
    for body in (b"e", b"f"):
        await story.send_later(body)
    story.stage.clock.advance(1_000)
    await story.client.await_stored("later", 6)


async def transactions(story: Story) -> None:
    """Tell of transactions that are committed, rolled back, asked about, decided late, and given up."""
    await story.client.heartbeat(producer=PRODUCERS)
    # Behind the first end, where there is a kernel, the others are its.
    for body in (b"commit", b"second", b"roll back", b"late", b"never"):
        await story.send_half(body)
    await story.end(b"commit", COMMIT)
    await story.end(b"second", COMMIT)
    await story.end(b"roll back", ROLLBACK)
    await story.await_questions(2)
    await story.end(b"late", COMMIT)
    await story.await_questions(3)
    story.stage.clock.advance(INTERVAL_MS)
    await story.client.await_stored(GIVEN_UP)
    await settle()
    story.promised.given_up.add(b"never")
    story.mark()


async def send_backs(story: Story) -> None:
    """Tell of messages that are sent back to be retried, and to be given up."""
    await story.client.heartbeat(consumer=READERS)
    await story.send_back(b"a", level=1)
    await story.send_back(b"b", level=-1)
    await story.send_back(b"c", level=1)
    story.stage.clock.advance(1_000)
    await story.client.await_stored(RETRY, 2)
    await story.send_back(b"d", level=1)


Tell = Callable[[Story], Awaitable[None]]
STORIES: dict[str, Tell] = {"delays": delays, "transactions": transactions, "send backs": send_backs}


async def told(tell: Tell) -> tuple[SimulatedDisk, int]:
    """Tell a story, and return the disk that remembers it, and when it ended."""
    disk = SimulatedDisk(boot_id="the boot of the story")
    async with running_stage(ROOT, files=disk, **SETTINGS) as stage:
        story = Story(stage, disk)
        story.mark()
        await tell(story)
        remembered = SimulatedDisk(boot_id=disk.boot_id())
        remembered.journal = list(disk.journal)
        return remembered, stage.clock.now_ms()


async def keep_promises(disk: SimulatedDisk, promised: Promised, now_ms: int, what: str) -> None:
    """Start a broker on a disk that a crash left, let time pass, and see what it makes of its promises."""
    async with running_stage(ROOT, clock=ManualClock(now_ms), files=disk, **SETTINGS) as stage:
        client = stage.connect()
        await client.heartbeat(producer=PRODUCERS, consumer=READERS)
        await _keep_delays(stage, client, promised, what)
        await _keep_transactions(stage, client, promised, what)


async def _keep_delays(stage: ManualStage, client: Peer, promised: Promised, what: str) -> None:
    # What waits on the level of the markers comes before them, and so does whatever comes twice.
    await client.send("later", b"marker", properties={"DELAY": "1"})
    stage.clock.advance(1_000)
    delivered = await aeventually(lambda: _with_marker(client))
    _see_each_once(delivered, promised.delayed | {b"marker"}, f"delayed, {what}")
    _see_each_once(await bodies(client, RETRY), promised.retried, f"retried, {what}")
    _see_each_once(await bodies(client, DEAD), promised.buried, f"buried, {what}")


async def _with_marker(client: Peer) -> list[bytes]:
    found = await bodies(client, "later")
    return found if b"marker" in found else []


def _see_each_once(found: list[bytes], promised: set[bytes], what: str) -> None:
    assert promised <= set(found), f"lost: {promised - set(found)}; {what}"
    assert max(Counter(found).values(), default=1) == 1, f"twice: {found}; {what}"


async def _keep_transactions(stage: ManualStage, client: Peer, promised: Promised, what: str) -> None:
    answers = {
        body: await end(client, half, COMMIT) for body, half in promised.halves.items() if not half.is_ended
    }
    seen, given_up = Counter(await bodies(client, "paid")), Counter(await bodies(client, GIVEN_UP))
    for body, half in promised.halves.items():
        is_committed_now = body in answers and answers[body].code == ResponseCode.SUCCESS
        is_committed = half.tried == COMMIT or is_committed_now
        assert seen[body] == is_committed, f"{body!r} is there {seen[body]} times; {what}"
        is_given_up = body in promised.given_up or (half.tried is None and not is_committed_now)
        assert given_up[body] == is_given_up, f"{body!r} was given up {given_up[body]} times; {what}"
        for fate in (COMMIT, ROLLBACK):
            assert "already" in ((await end(client, half, fate)).remark or ""), what
    stage.clock.advance(INTERVAL_MS)
    await settle()
    asked = {bytes(question.body) for question in questions(client)}
    assert not [body for body in promised.halves if any(body in question for question in asked)], what
    assert Counter(await bodies(client, "paid")) == seen, what


async def bodies(client: Peer, topic: str) -> list[bytes]:
    """Return the bodies of a topic's first queue, or of all its queues if it is a retry topic."""
    return [record.body for record in await client.stored(topic)]


def questions(client: Peer) -> list[Command]:
    """Return what the broker asked about transactions."""
    return client.asked_for(RequestCode.CHECK_TRANSACTION_STATE)


async def end(client: Peer, half: Half, fate: int) -> Command:
    """End a transaction and return the answer."""
    fields = {
        "producerGroup": PRODUCERS,
        "tranStateTableOffset": half.offset,
        "commitLogOffset": half.position,
        "commitOrRollback": fate,
        "msgId": "ID",
    }
    return await client.request(RequestCode.END_TRANSACTION, fields)


def position_of(sent: Command) -> int:
    """Return where a message is in the log."""
    return parse_offset_message_id((sent.ext or {})["msgId"]).position
