"""`pyromq job replay`: what the options mean, and what is said of the job."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyromq.cli import output
from pyromq.cli.spark.job_place import JobPlace, connection_of, pairs, state_folder
from pyromq.cli.times import past_ms
from pyromq.errors import ConfigError
from pyspark_rocketmq.session import check_machine

if TYPE_CHECKING:
    from pyspark_rocketmq.jobs.replay import Replayed


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReplay:
    """The options of a replay."""

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


def run_replay(place: JobPlace, replaying: JobReplay) -> None:
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
    state = ReplayState(replaying.state or state_folder("replay", *replaying.words()))
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


def _queue_count(replaying: JobReplay) -> int | None:
    """Return how many queues the target topic has, if messages keep their queues' numbers."""
    if replaying.archive is None or replaying.to is None:
        return None
    from pyromq.client.sync.admin import Admin
    from pyspark_rocketmq.jobs.mirror import queue_count

    connection = connection_of(replaying.name_server, replaying.assignments)
    with Admin(connection.name_server, connection.settings()) as admin:
        return queue_count(admin, replaying.to)


def _say_count(place: JobPlace, done: "Replayed") -> None:
    if place.is_json:
        output.say_json({"event": "count", "total": done.total, "by_topic": dict(done.by_topic)})
        return
    for topic, rows in sorted(done.by_topic.items()):
        output.say(f"{rows:,} messages would go to {topic}")
    if not done.by_topic:
        output.say("no message would be sent")
