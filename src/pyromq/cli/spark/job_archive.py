"""`pyromq job archive` and `pyromq job verify`: what the options mean, and what is said of the job."""

from typing import TYPE_CHECKING

from pyromq.cli import output
from pyromq.cli.spark.job_place import JobPlace, connection_of
from pyromq.cli.times import span_s
from pyromq.model import MessageQueue
from pyspark_rocketmq.session import check_machine

if TYPE_CHECKING:
    from pyspark_rocketmq.jobs.verify import Verified


def run_archive(
    place: JobPlace,
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
    from pyspark_rocketmq.jobs.archive import ArchiveOrder, archive, look
    from pyspark_rocketmq.source.source_options import TopicChoice

    order = ArchiveOrder(
        connection_of(name_server, assignments),
        TopicChoice("TOPIC", tuple(dict.fromkeys(topics))),
        ArchiveFolder(folder),
        accepts_gaps=accepts_gaps,
        round_messages=round_messages,
    )
    look(order)
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


def run_verify(
    place: JobPlace, *, folder: str, name_server: str | None, topics: list[str], assignments: list[str]
) -> bool:
    """Verify, print each range that is not as it should be, and return whether all are."""
    check_machine(place.spark)
    from pyspark_rocketmq.cold.folder import ArchiveFolder
    from pyspark_rocketmq.jobs.verify import VerifyOrder, archived_files, verify

    connection = None if name_server is None else connection_of(name_server, assignments)
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


def _say_findings(place: JobPlace, found: "Verified") -> None:
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
