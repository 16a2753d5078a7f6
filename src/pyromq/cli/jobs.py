"""`pyromq job …`: what the options mean, the job run in a Spark session, and what is said of it."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from pyromq.cli import output
from pyromq.cli.data_folder import default_folder
from pyromq.cli.times import past_ms, span_s
from pyromq.errors import ConfigError
from pyromq.model import MessageQueue
from pyspark_rocketmq.session import SparkPlace, check_machine, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_rocketmq.jobs.replay import Replayed
    from pyspark_rocketmq.jobs.running import Progress, Watch
    from pyspark_rocketmq.jobs.verify import Verified
    from pyspark_rocketmq.options import Connection

STATUS_STOPPED: Final = 130
#: Seconds between two lines of progress where there is no terminal.
LINE_S: Final = 10.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Place:
    """Where Spark runs, and who reads what is said."""

    master: str | None
    remote: str | None
    settings: tuple[str, ...]
    is_json: bool

    @property
    def spark(self) -> SparkPlace:
        """Where Spark runs."""
        return SparkPlace(self.master, self.remote, pairs(self.settings, "--conf"))

    @contextmanager
    def session(self, name: str) -> Iterator["SparkSession"]:
        """Start Spark."""
        if not self.is_json:
            output.note(f"starting Spark ({self.remote or self.master or 'on this machine'})")
        with spark_session(name, self.spark) as spark:
            yield spark

    @contextmanager
    def watch(self, verb: str) -> Iterator["Watch"]:
        """Show how far a job is; a first signal asks it to stop, and a second one ends the program."""
        from pyspark_rocketmq.jobs.running import Watch

        stop = threading.Event()

        def ask(_number: int, _frame: object) -> None:
            stop.set()
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            output.note("stopping when this round is done; once more ends it at once")

        before = {number: signal.signal(number, ask) for number in _SIGNALS}
        try:
            with ExitStack() as closing:
                yield Watch(self._teller(verb, closing), stop)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _teller(self, verb: str, closing: ExitStack) -> Callable[["Progress"], None]:
        if self.is_json:
            return _tell_json
        if not sys.stderr.isatty():
            return _Lines(verb).tell
        from pyromq.cli.progress import row_progress_bar

        show = closing.enter_context(row_progress_bar(verb))
        return lambda progress: show(progress.done, progress.left, progress.note)

    def end(self, record: dict[str, Any], text: str, *, is_stopped: bool) -> None:
        """Say what came of a job; raise Exit with the status of one that was stopped."""
        if self.is_json:
            output.say_json({"event": "end", "is_stopped": is_stopped, **record})
        else:
            output.say(text)
            if is_stopped:
                output.note("stopped; run the same command again, and it goes on")
        if is_stopped:
            raise typer.Exit(STATUS_STOPPED)


def _tell_json(progress: "Progress") -> None:
    output.say_json({"event": "progress", "rows": progress.done, "left": progress.left})


class _Lines:
    """Progress for a log: a line now and then."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._began_at = self._told_at = time.monotonic()

    def tell(self, progress: "Progress") -> None:
        """Print how far it is, if that was not just done."""
        now = time.monotonic()
        if now - self._told_at < LINE_S:
            return
        self._told_at = now
        rate = progress.done / (now - self._began_at)
        left = "" if progress.left is None else f", {progress.left:,} left"
        output.note(f"{self._verb}: {progress.done:,} messages{left}, {rate:,.0f}/s {progress.note}".rstrip())


def pairs(assignments: Iterable[str], option: str) -> dict[str, str]:
    """Return KEY=VALUE as a dict; raise ConfigError for what is none."""
    found: dict[str, str] = {}
    for one in assignments:
        name, equals, value = one.partition("=")
        if not name or not equals:
            raise ConfigError(f"{option} {one}: expected KEY=VALUE")
        found[name] = value
    return found


def _connection(name_server: str, assignments: Iterable[str]) -> "Connection":
    from pyspark_rocketmq.given import given_options
    from pyspark_rocketmq.options import NAMES, read_connection

    return read_connection(
        given_options({"nameServer": name_server, **pairs(assignments, "--option")}, NAMES)
    )


def _state_folder(kind: str, *what: str) -> Path:
    """Return the folder in which a job notes how far it is: the same for the same job."""
    digest = blake2b("\n".join(what).encode(), digest_size=8).hexdigest()
    return default_folder(os.environ) / "jobs" / f"{kind}-{digest}"


# Archive


def run_archive(
    place: Place,
    *,
    topics: list[str],
    folder: str,
    name_server: str,
    interval: str | None,
    accepts_gaps: bool,
    round_messages: int,
    assignments: list[str],
) -> None:
    """Archive once, or again and again until a signal comes."""
    pause_s = None if interval is None else span_s(interval, "--interval")
    check_machine(place.spark)
    from pyspark_rocketmq.cold.folder import ArchiveFolder
    from pyspark_rocketmq.jobs.archive import ArchiveOrder, archive
    from pyspark_rocketmq.options import Choice

    order = ArchiveOrder(
        _connection(name_server, assignments),
        Choice("TOPIC", tuple(dict.fromkeys(topics))),
        ArchiveFolder(folder),
        accepts_gaps=accepts_gaps,
        round_messages=round_messages,
    )
    with place.session("pyromq job archive") as spark:
        rows = files = size = left = 0
        with place.watch("archiving") as watch:
            while True:
                done = archive(spark, order, watch)
                rows, files, size, left = (
                    rows + done.row_count,
                    files + done.file_count,
                    size + done.size_bytes,
                    done.left,
                )
                for gap in done.gaps:
                    output.warn(f"{_range(gap.queue, gap.start, gap.end)}: {gap.why}")
                if pause_s is None or watch.stop.wait(pause_s):
                    break
    record = {"rows": rows, "files": files, "bytes": size, "left": left, "archive": folder}
    text = f"{rows:,} messages archived in {files:,} files ({size:,} bytes), {left:,} left"
    place.end(record, text, is_stopped=watch.is_stopped and left > 0)


# Verify


def run_verify(
    place: Place, *, folder: str, name_server: str | None, topics: list[str], assignments: list[str]
) -> bool:
    """Verify, print each range that is not as it should be, and return whether all are."""
    check_machine(place.spark)
    from pyspark_rocketmq.cold.folder import ArchiveFolder
    from pyspark_rocketmq.jobs.verify import VerifyOrder, archived_files, verify

    connection = None if name_server is None else _connection(name_server, assignments)
    order = VerifyOrder(ArchiveFolder(folder), connection, tuple(topics))
    archived_files(order)
    with place.session("pyromq job verify") as spark, place.watch("verifying") as watch:
        found = verify(spark, order, watch)
    _say_findings(place, found)
    counts = dict.fromkeys(("same", "gone", "whole", "differs", "damaged"), 0)
    rows = 0
    for finding in found.findings:
        counts[finding.verdict] += 1
        rows += finding.file.row_count
    words = {
        "same": "the same at the broker",
        "gone": "no longer at the broker",
        "whole": "whole",
        "differs": "different at the broker",
        "damaged": "damaged",
    }
    parts = [f"{count:,} {words[name]}" for name, count in counts.items() if count]
    text = f"{rows:,} messages in {len(found.findings):,} ranges: {', '.join(parts) or 'none'}"
    if found.not_archived:
        text += f"; {found.not_archived:,} messages are not archived yet"
    record = {"rows": rows, "left": found.left, "not_archived": found.not_archived, **counts}
    place.end(record, text, is_stopped=found.left > 0)
    return found.is_good


def _say_findings(place: Place, found: "Verified") -> None:
    for finding in found.findings:
        if place.is_json:
            output.say_json({"event": "range", **finding.to_json()})
        elif not finding.is_good:
            file = finding.file
            verdict = output.paint(f"{finding.verdict:<8}", "red")
            output.say(f"{verdict} {_range(file.queue, file.start, file.end)}: {finding.why}")
    for gap in found.gaps:
        if place.is_json:
            output.say_json({"event": "gap", **gap.to_json()})
        else:
            mark = output.paint("gap     ", "yellow")
            output.say(f"{mark} {_range(gap.queue, gap.start, gap.end)}: {gap.why}")


def _range(queue: MessageQueue, start: int, end: int) -> str:
    return f"{queue.topic} {queue.broker_name} queue {queue.queue_id} offsets {start} to {end - 1}"


# Replay


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaying:
    """What to replay and how, as the options say it."""

    name_server: str
    archive: str | None
    topics: tuple[str, ...]
    dead_letters_of: str | None
    where: str | None
    since: str | None
    until: str | None
    to: str | None
    is_to_origin: bool
    rate: float | None
    is_rehearsal: bool
    is_again: bool
    delivery: str
    state: Path | None
    assignments: tuple[str, ...]

    def check(self) -> None:
        """Raise ConfigError unless the options say what goes where."""
        if (self.archive is None) == (self.dead_letters_of is None):
            raise ConfigError("say what to replay: --archive DIR with --topic, or --dlq GROUP")
        if (self.archive is None) == bool(self.topics):
            raise ConfigError(
                "--topic says which topic of an archive: it goes with --archive, and only with it"
            )
        if (self.to is None) != self.is_to_origin and not self.is_rehearsal:
            raise ConfigError("say where to: --to TOPIC, or --to-origin")

    def source(self) -> dict[str, str]:
        """Return the options of the read."""
        if self.archive is not None:
            source = {"archive": str(self.archive), "subscribe": ",".join(self.topics)}
        else:
            group = self.dead_letters_of or ""
            source = {"nameServer": self.name_server, "dlq": group, **pairs(self.assignments, "--option")}
        if self.since is not None:
            source["startingTimestamp"] = str(past_ms(self.since, "--since"))
        if self.until is not None:
            source["endingTimestamp"] = str(past_ms(self.until, "--until"))
        return source

    def words(self) -> tuple[str, ...]:
        """Return what tells this replay from others."""
        kinds = (self.archive, self.dead_letters_of, self.where, self.since, self.until, self.to)
        archive = "" if self.archive is None or "://" in self.archive else str(Path(self.archive).absolute())
        return (self.name_server, archive, ",".join(self.topics), *(kind or "" for kind in kinds))


def run_replay(place: Place, replaying: Replaying) -> None:
    """Count, or replay; and say how many."""
    replaying.check()
    check_machine(place.spark)
    from pyspark_rocketmq.jobs.replay import ReplayOrder, count, replay
    from pyspark_rocketmq.jobs.replay_plan import ReplayState

    order = ReplayOrder(
        source=replaying.source(),
        target={
            "nameServer": replaying.name_server,
            "delivery": replaying.delivery,
            **pairs(replaying.assignments, "--option"),
        },
        where=replaying.where,
        topic=replaying.to,
        queue_count=_queue_count(replaying),
        rate=replaying.rate,
    )
    state = ReplayState(replaying.state or _state_folder("replay", *replaying.words()))
    if replaying.is_again and not replaying.is_rehearsal:
        state.forget()
    with place.session("pyromq job replay") as spark, place.watch("replaying") as watch:
        done = count(spark, order) if replaying.is_rehearsal else replay(spark, order, state, watch)
    if replaying.is_rehearsal:
        _say_count(place, done)
        return
    record = {"total": done.total, "rows": done.row_count, "before": done.before, "left": done.left}
    text = f"{done.row_count:,} messages replayed, {done.before:,} by earlier runs, {done.left:,} left"
    if done.total and done.before == done.total:
        text = f"all {done.total:,} messages were replayed before; --again replays them once more"
    place.end(record, text, is_stopped=done.left > 0)


def _queue_count(replaying: Replaying) -> int | None:
    """Return how many queues the target topic has, if messages keep their queues' numbers."""
    if replaying.archive is None or replaying.to is None:
        return None
    from pyromq.client.sync.admin import Admin
    from pyspark_rocketmq.jobs.mirror import queue_count

    connection = _connection(replaying.name_server, replaying.assignments)
    with Admin(connection.name_server, connection.settings()) as admin:
        return queue_count(admin, replaying.to)


def _say_count(place: Place, done: "Replayed") -> None:
    if place.is_json:
        output.say_json({"event": "count", "total": done.total, "by_topic": dict(done.by_topic)})
        return
    for topic, rows in sorted(done.by_topic.items()):
        output.say(f"{rows:,} messages would go to {topic}")
    if not done.by_topic:
        output.say("no message would be sent")


# Mirror


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirroring:
    """What to mirror and how, as the options say it."""

    topics: tuple[str, ...]
    source: str
    target: str
    is_once: bool
    start: str
    group: str | None
    batch: int
    source_name: str | None
    target_name: str | None
    delivery: str
    checkpoint: str | None
    source_assignments: tuple[str, ...]
    target_assignments: tuple[str, ...]


def run_mirror(place: Place, mirroring: Mirroring) -> None:
    """Mirror until all is copied, or until a signal comes."""
    if mirroring.start not in ("earliest", "latest"):
        raise ConfigError(f"--start {mirroring.start}: expected earliest or latest")
    topics = tuple(dict.fromkeys(mirroring.topics))
    checkpoint = mirroring.checkpoint or str(
        _state_folder("mirror", mirroring.source, mirroring.target, *sorted(topics))
    )
    source = {
        "nameServer": mirroring.source,
        "startingOffsets": mirroring.start,
        "maxMessagesPerTrigger": str(mirroring.batch),
        **({} if mirroring.group is None else {"groupId": mirroring.group}),
        **pairs(mirroring.source_assignments, "--source-option"),
    }
    target = {
        "nameServer": mirroring.target,
        "delivery": mirroring.delivery,
        **pairs(mirroring.target_assignments, "--target-option"),
    }
    check_machine(place.spark)
    from pyspark_rocketmq.jobs.mirror import MirrorOrder, mirror, prepare

    order = MirrorOrder(
        source=source,
        target=target,
        topics=topics,
        checkpoint=checkpoint,
        source_name=mirroring.source_name,
        target_name=mirroring.target_name,
        is_once=mirroring.is_once,
    )
    prepare(order)
    if not place.is_json:
        output.note(f"how far it is is noted in {checkpoint}")
    with place.session("pyromq job mirror") as spark, place.watch("mirroring") as watch:
        done = mirror(spark, order, watch)
    record = {"rows": done.row_count, "source": done.source_name, "target": done.target_name}
    text = f"{done.row_count:,} messages read of {done.source_name} for {done.target_name}"
    place.end(record, text, is_stopped=done.is_stopped)
