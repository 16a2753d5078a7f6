"""`pyromq job mirror`: what the options mean, and what is said of the job."""

from dataclasses import dataclass

from pyromq.cli import output
from pyromq.cli.spark.job_place import JobPlace, pairs, state_folder
from pyromq.errors import ConfigError
from pyspark_rocketmq.session import check_machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirroring:
    """The options of a mirror."""

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


def run_mirror(place: JobPlace, mirroring: Mirroring) -> None:
    """Mirror until all is copied, or until a signal comes."""
    if mirroring.start not in ("earliest", "latest"):
        raise ConfigError(f"--start {mirroring.start}: expected earliest or latest")
    topics = tuple(dict.fromkeys(mirroring.topics))
    checkpoint = mirroring.checkpoint or str(
        state_folder("mirror", mirroring.source, mirroring.target, *sorted(topics))
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
