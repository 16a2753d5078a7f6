"""`pyromq store`: what a look at a broker's files found, for people and for programs."""

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

from pyromq.cli import output
from pyromq.cli.messages.bodies import json_body, printable
from pyromq.cli.servers.given_settings import load_settings
from pyromq.clock import SystemClock
from pyromq.config.settings import BrokerProcess
from pyromq.errors import ConfigError
from pyromq.store.backup.backup import BackedUp, Backup, BackupOrder
from pyromq.store.delay_levels import parse_delay_levels
from pyromq.store.inspect.dump import Dumped, Selection, dump
from pyromq.store.inspect.findings import StoreFinding, StoreReport
from pyromq.store.inspect.store_survey import Layout, store_root, take_survey
from pyromq.store.inspect.store_verification import Verification
from pyromq.wire.message_id import offset_message_id
from pyromq.wire.properties import KEYS, TAGS, decode
from pyromq.wire.record import Record, decode_host

#: Less than this is done before other processes are up.
_SHARED_BYTES_MIN = 256 << 20
_BODY_CHARACTERS = 60


def layout_of(folder: Path, config: Path | None, assignments: list[str] | None) -> Layout:
    """Return where a store's parts are; the settings say what the files do not say of themselves."""
    settings = load_settings(BrokerProcess, file=config, assignments=assignments, flags=[]).process.store
    try:
        root = store_root(folder.expanduser())
    except FileNotFoundError as error:
        raise ConfigError(str(error)) from error
    return Layout(
        root=root,
        log_folder=Path(settings.store_path_commit_log or root / "commitlog"),
        slots=settings.max_hash_slot_num,
        entries_max=settings.max_index_num,
        delays_ms=parse_delay_levels(settings.message_delay_level),
    )


def run_verify(layout: Layout, jobs: int | None, *, is_json: bool) -> bool:
    """Verify a store, print what was found, and return whether everything is whole."""
    verification = Verification(layout)
    total = verification.total_bytes
    jobs = jobs or (1 if total < _SHARED_BYTES_MIN else len(os.sched_getaffinity(0)))
    with shared_by(jobs) as run, _progress("verifying", total, is_json=is_json) as advance:
        report = verification.run(run=run, advance=advance)
    if is_json:
        for finding in report.listed:
            output.say_json(finding.as_record())
        output.say_json(report.as_record())
    else:
        _print_report(report)
    return report.is_whole


@contextmanager
def shared_by(jobs: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """Yield a `map` that shares its work between processes."""
    if jobs == 1:
        yield map
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    # Spawned, because a fork would copy the thread that draws the bar in the middle of whatever it does.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield pool.map


def _progress(verb: str, total: int, *, is_json: bool) -> AbstractContextManager[Callable[[int], None]]:
    if is_json or not sys.stderr.isatty():
        return nullcontext(lambda _: None)
    from pyromq.cli.progress_bar import byte_progress_bar

    return byte_progress_bar(verb, total)


def _print_report(report: StoreReport) -> None:
    for finding in report.listed:
        output.say(_finding(finding))
    unlisted = report.fault_count + report.note_count - len(report.listed)
    if unlisted:
        output.say(f"and {unlisted} more")
    output.say(
        f"{report.root}: {report.state}; {report.records} messages in {report.log_files} files of the log, "
        f"{report.queue_entries} entries in {report.queues} queues, {report.index_entries} keys, "
        f"{report.tables} tables"
    )
    if report.is_whole:
        output.say(output.paint("everything is whole", "green"))
    else:
        output.say(output.paint(f"{report.fault_count} faults", "red"))


def _finding(finding: StoreFinding) -> str:
    kind = output.paint("fault", "red") if finding.is_fault else output.paint("note", "yellow")
    lines = [f"{kind} {finding.file} at byte {finding.position}", f"  {finding.what}"]
    return "\n".join([*lines, f"  → {finding.remedy}"] if finding.remedy else lines)


def run_backup(
    layout: Layout, folder: Path, target: Path, *, is_linked: bool, is_pruned: bool, is_json: bool
) -> None:
    """Back the store in a folder up, and print what was done."""
    root = layout.root.absolute()
    wanted = BackupOrder(
        root=root,
        log_folder=layout.log_folder.absolute(),
        folder=folder.expanduser().absolute(),
        target=target.expanduser().absolute(),
        name=f"{socket.gethostname()}:{root}",
        is_linked=is_linked,
        is_pruned=is_pruned,
    )
    backup = Backup(wanted, clock=SystemClock())
    with _progress("copying", backup.total_bytes, is_json=is_json) as advance:
        done = backup.run(advance)
    if is_json:
        output.say_json(done.as_record())
    else:
        _print_backup(done)


def _print_backup(done: BackedUp) -> None:
    kind = "a first backup" if done.is_first else "what was new"
    linked = f"{done.linked_files} files of it linked, " if done.linked_files else ""
    output.say(
        f"{done.target}: the log from {done.begin:,} to {done.end:,}; {kind}, "
        f"{done.copied_bytes:,} bytes of the log, {linked}{done.follower_files} files of queues and index, "
        f"{done.tables} tables, in {done.seconds:.1f} s"
    )
    if done.removed_files:
        output.say(f"{done.removed_files} files that are not in the store any more were removed")
    for note in done.notes:
        output.warn(note)
    output.say(output.paint("backed up", "green"))


def run_dump(layout: Layout, selection: Selection, *, is_json: bool) -> bool:
    """Print records, and return whether there were any and all of them were whole."""
    count = fault_count = 0
    for one in dump(take_survey(layout), selection):
        count += one.record is not None
        fault_count += len(one.faults)
        if is_json:
            output.say_json(_as_record(one))
            continue
        for fault in one.faults:
            output.complain(f"{one.file.path} at byte {one.place}: {fault}")
        if one.record is not None:
            output.say(_line(one.position, one.record))
    if not count and not fault_count:
        output.complain("no message is like that")
    return count > 0 and not fault_count


def _line(position: int, record: Record) -> str:
    properties = decode(record.properties)
    stored_at = datetime.fromtimestamp(record.stored_at_ms / 1_000).isoformat(" ", "milliseconds")
    rest = "…" if len(record.body) > _BODY_CHARACTERS else ""
    about = [
        output.paint(f"{position:>12}  {stored_at}", "dim"),
        f"{record.topic}:{record.queue_id}:{record.queue_offset}",
        output.paint(f"{record.size} B", "dim"),
    ]
    about += [
        output.paint(properties[name], style)
        for name, style in ((TAGS, "cyan"), (KEYS, "yellow"))
        if name in properties
    ]
    return "  ".join([*about, printable(record.body[:_BODY_CHARACTERS]) + rest])


def _as_record(one: Dumped) -> dict[str, Any]:
    place = {"file": str(one.file.path), "at": one.place, "position": one.position, "faults": one.faults}
    record = one.record
    if record is None:
        return place
    return place | {
        "topic": record.topic,
        "queue": record.queue_id,
        "offset": record.queue_offset,
        "size": record.size,
        "flag": record.flag,
        "sys_flag": record.sys_flag,
        "born_at_ms": record.born_at_ms,
        "born_host": _host(record.born_host),
        "stored_at_ms": record.stored_at_ms,
        "store_host": _host(record.store_host),
        "reconsume_times": record.reconsume_times,
        "prepared_position": record.prepared_position,
        "body_crc": record.body_crc,
        "offset_message_id": offset_message_id(record.store_host, one.position),
        "properties": decode(record.properties),
        **json_body(record.body),
    }


def _host(host: bytes) -> str:
    address, port = decode_host(host)
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
