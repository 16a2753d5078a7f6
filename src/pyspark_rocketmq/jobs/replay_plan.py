"""The plan of a replay: which messages go out in which round, fixed before the first of them does.

    {"version": 1, "id": "4f1c…", "order": "…", "rounds": [
        {"rows": 800, "ranges": [["orders", "broker-a", 0, 0, 1000], …]}, …]}

The id and a round's number name a write that is done once. So a replay that was killed goes on with its plan,
and a round that is out already is not sent again, even if nobody noted that it is.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from pyromq.errors import ConfigError
from pyromq.model import MessageQueue
from pyspark_rocketmq.cold.folder import ArchiveFolder, FolderTaken
from pyspark_rocketmq.source.planning import QueueRange

VERSION: Final = 1
_PLAN: Final = "plan.json"


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of a queue, with how many of its messages are wanted."""

    range: QueueRange
    row_count: int


@dataclass(frozen=True, slots=True)
class ReplayRound:
    """A round: the ranges that are replayed together."""

    ranges: tuple[QueueRange, ...]
    row_count: int

    @property
    def start_offsets(self) -> str:
        """The start offsets of its ranges, as an option of a read."""
        return _offsets((one.queue, one.start) for one in self.ranges)

    @property
    def end_offsets(self) -> str:
        """The end offsets of its ranges."""
        return _offsets((one.queue, one.end) for one in self.ranges)

    @property
    def queues(self) -> str:
        """Their queues, as an option of a read."""
        table: dict[str, dict[str, list[int]]] = {}
        for one in self.ranges:
            queue = one.queue
            table.setdefault(queue.topic, {}).setdefault(queue.broker_name, []).append(queue.queue_id)
        return json.dumps(table)


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """All rounds, in order; `order` says in words what is replayed to where."""

    id: str
    order: str
    rounds: tuple[ReplayRound, ...]

    @property
    def row_count(self) -> int:
        """The number of messages of all rounds."""
        return sum(one.row_count for one in self.rounds)


def make_rounds(blocks: Iterable[Block], rows_max: int) -> Iterator[ReplayRound]:
    """Put blocks together, in the order of their queues, until a round has about so many rows.

    The blocks of a queue that follow one another become one range: what lies between them is not wanted.
    """
    gathered: list[Block] = []
    rows = 0
    for block in sorted(blocks, key=lambda one: (one.range.queue, one.range.start)):
        if gathered and rows + block.row_count > rows_max:
            yield _round(gathered, rows)
            gathered, rows = [], 0
        gathered.append(block)
        rows += block.row_count
    if gathered:
        yield _round(gathered, rows)


def _round(blocks: Sequence[Block], rows: int) -> ReplayRound:
    ranges: dict[MessageQueue, QueueRange] = {}
    for block in blocks:
        known = ranges.get(block.range.queue, block.range)
        ranges[block.range.queue] = QueueRange(block.range.queue, known.start, block.range.end)
    return ReplayRound(tuple(ranges.values()), rows)


class ReplayState:
    """A folder that has a replay's plan, and how many of its rounds are known to be out."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self) -> ReplayPlan | None:
        """Return the plan, or None when there is none yet; raise ConfigError for one that does not read."""
        try:
            record = json.loads((self._folder / _PLAN).read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ConfigError(f"{self._folder / _PLAN} does not read: {error}; remove the folder") from error
        if record.get("version") != VERSION:
            raise ConfigError(f"{self._folder / _PLAN} is of another version; remove the folder")
        return ReplayPlan(record["id"], record["order"], tuple(map(_round_of, record["rounds"])))

    def begin(self, order: str, rounds: Iterable[ReplayRound]) -> ReplayPlan:
        """Keep a new plan; raise ConfigError when another program was faster."""
        plan = ReplayPlan(uuid4().hex, order, tuple(rounds))
        record = {
            "version": VERSION,
            "id": plan.id,
            "order": plan.order,
            "rounds": [_round_json(one) for one in plan.rounds],
        }
        try:
            ArchiveFolder(str(self._folder)).create(_PLAN, json.dumps(record).encode())
        except FolderTaken as error:
            raise ConfigError(
                f"{self._folder} has a plan already: the same replay is running twice"
            ) from error
        return plan

    @property
    def done_count(self) -> int:
        """The number of rounds that are known to be out; perhaps one more is."""
        return len(ArchiveFolder(str(self._folder)).names("done"))

    def note_done(self, number: int) -> None:
        """Note that a round is out."""
        try:
            ArchiveFolder(str(self._folder)).create(f"done/{number:08d}", b"")
        except FolderTaken:
            return

    def forget(self) -> None:
        """Remove the plan, so that the same order is replayed anew."""
        for path in (*(self._folder / "done").glob("*"), self._folder / _PLAN):
            path.unlink(missing_ok=True)


def _round_json(one: ReplayRound) -> dict[str, Any]:
    ranges = [
        [one.queue.topic, one.queue.broker_name, one.queue.queue_id, one.start, one.end] for one in one.ranges
    ]
    return {"rows": one.row_count, "ranges": ranges}


def _round_of(record: dict[str, Any]) -> ReplayRound:
    ranges = tuple(
        QueueRange(MessageQueue(topic, broker, queue_id), start, end)
        for topic, broker, queue_id, start, end in record["ranges"]
    )
    return ReplayRound(ranges, record["rows"])


def _offsets(places: Iterable[tuple[MessageQueue, int]]) -> str:
    table: dict[str, dict[str, dict[str, int]]] = {}
    for queue, offset in places:
        table.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = offset
    return json.dumps(table)
