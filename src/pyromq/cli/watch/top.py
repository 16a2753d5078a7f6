"""`pyromq top`: brokers, topics and groups of a cluster, live in a terminal."""

import asyncio
import dataclasses
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyromq.cli import options, output
from pyromq.cli.exit_status import say_next_step, status_of_part
from pyromq.errors import PyroError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from pyromq.cli.watch.top_sample import TopSample
    from pyromq.client.aio.asking import Asker

ROWS = 15
_PIPE_WIDTH = 160
#: Pause between two samples, in times of the last one: watching must not keep brokers busy.
PAUSE_FACTOR = 4


def top(
    *,
    name_server: options.NameServer = options.DEFAULT_NAME_SERVER,
    interval: Annotated[
        float, typer.Option("-i", "--interval", metavar="SECONDS", min=0.2, help="From look to look.")
    ] = 2.0,
    rows: Annotated[int, typer.Option("--rows", metavar="N", min=1, help="Topics and groups shown.")] = ROWS,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    as_json: options.Json = False,
) -> None:
    """Watch a cluster: its brokers, the busiest topics, the groups that are furthest behind."""
    from pyromq.cli.exit_status import ended_by_errors

    with ended_by_errors():
        asyncio.run(_watch(name_server, interval, rows, is_once=once, is_json=as_json))


async def _watch(name_server: str, interval_s: float, rows: int, *, is_once: bool, is_json: bool) -> None:
    from pyromq.cli.admin.command_runs import operator_settings
    from pyromq.cli.watch.top_sample import take_sample
    from pyromq.client.aio.asking import Asker

    asker = Asker(name_server, operator_settings())
    await asker.start()
    try:
        sample = await take_sample(asker)
        if is_once:
            _show(sample, rows, is_json=is_json)
            _end(sample)
        elif is_json:
            while True:
                _show(sample, rows, is_json=True)
                sample = await _sample_until_taken(asker, sample, interval_s, output.warn)
        else:
            await _show_live(asker, sample, interval_s, rows)
    finally:
        await asker.close()


async def _show_live(asker: "Asker", sample: "TopSample", interval_s: float, rows: int) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    with Live(view(sample, rows), auto_refresh=False, screen=True) as live:

        def complain(text: str) -> None:
            live.update(Group(Text(text, "red"), view(sample, rows)), refresh=True)

        while True:
            sample = await _sample_until_taken(asker, sample, interval_s, complain)
            live.update(view(sample, rows), refresh=True)


def _end(sample: "TopSample") -> None:
    """Name the brokers that did not answer, and end with the exit status for that."""
    from pyromq.cli.views.listing import did_not_answer

    silent = [row for row in sample.brokers if row.failure is not None]
    for row in silent:
        output.warn(did_not_answer(row.name, row.failure or ""))
    failures = [row.failure or "" for row in silent]
    say_next_step(failures)
    if silent:
        raise typer.Exit(status_of_part(len(sample.brokers), failures))


async def _sample_until_taken(
    asker: "Asker", before: "TopSample", interval_s: float, complain: Callable[[str], None]
) -> "TopSample":
    """Take the next sample, and try again when that fails: the user wants to see the cluster come back."""
    while True:
        try:
            return await _next_sample(asker, before, interval_s)
        except PyroError as error:
            complain(f"{error}; looking again")


async def _next_sample(asker: "Asker", before: "TopSample", interval_s: float) -> "TopSample":
    from pyromq.cli.watch.top_sample import take_sample

    loop = asyncio.get_running_loop()
    await asyncio.sleep(interval_s)
    began = loop.time()
    sample = await take_sample(asker, before)
    took_s = loop.time() - began
    await asyncio.sleep(max(0.0, took_s * PAUSE_FACTOR - interval_s))
    return sample


def _show(sample: "TopSample", rows: int, *, is_json: bool) -> None:
    if is_json:
        output.say_json(record_of(sample))
        return
    from rich.console import Console

    # In a pipe there is no width to keep to, and names are not to be cut off.
    Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH).print(view(sample, rows))


def record_of(sample: "TopSample") -> dict[str, Any]:
    """Return a sample for programs, with all topics and groups."""
    return {
        "brokers": [dataclasses.asdict(row) for row in sample.brokers],
        "topics": [dataclasses.asdict(row) for row in sample.topics],
        "groups": [dataclasses.asdict(row) for row in sample.groups],
        "lag": sample.lag,
    }


def view(sample: "TopSample", rows: int) -> "RenderableType":
    """Return a sample for people."""
    from rich.console import Group
    from rich.text import Text

    in_rate = sum(row.in_rate for row in sample.brokers if row.broker_id == 0)
    out_rate = sum(row.out_rate for row in sample.brokers)
    head = Text.assemble(
        (" PyroMQ top ", "reverse bold"),
        f"  brokers {len(sample.brokers)}  topics {len(sample.topics)}  ",
        f"subscriptions {len(sample.groups)}   ",
        ("in ", "dim"),
        (f"{_rate(in_rate)}/s  ", "green"),
        ("out ", "dim"),
        (f"{_rate(out_rate)}/s  ", "cyan"),
        ("lag ", "dim"),
        (f"{sample.lag:,}", "yellow" if sample.lag else ""),
    )
    silent = [f"{row.name} is silent: {row.failure}" for row in sample.brokers if row.failure is not None]
    return Group(
        head,
        Text("\n".join(["", *silent]), "red"),
        *(_brokers(sample), _topics(sample, rows), _groups(sample, rows)),
    )


def _table(title: str, *columns: str) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        expand=sys.stdout.isatty(),
        padding=(0, 1, 0, 0),
    )
    for number, name in enumerate(columns):
        is_number = name.startswith(">")
        table.add_column(
            name.removeprefix(">"),
            justify="right" if is_number else "left",
            # Numbers are whole or nothing; a name goes on in the next line where there is no room.
            no_wrap=is_number,
            overflow="fold",
            ratio=2 if number == 0 and sys.stdout.isatty() else None,
            min_width=0 if is_number else 6,
        )
    return table


def _brokers(sample: "TopSample") -> "Table":
    table = _table("Brokers", "NAME", "ID", "ADDRESS", "VERSION", ">IN/s", ">OUT/s", ">TODAY", ">DISK")
    for row in sample.brokers:
        role = "master" if row.broker_id == 0 else f"slave {row.broker_id}"
        if row.failure is not None:
            table.add_row(row.name, role, row.address, "[red]silent[/]")
            continue
        disk = "" if row.disk_ratio is None else f"{row.disk_ratio:.0%}"
        is_full = row.disk_ratio is not None and row.disk_ratio > 0.75
        table.add_row(
            row.name,
            role,
            row.address,
            # There is room for one: V4_9_8 is Apache's, 0.1.0 is ours.
            row.pyromq_version or row.version,
            _rate(row.in_rate),
            _rate(row.out_rate),
            f"{row.today_in:,}",
            f"[red]{disk}[/]" if is_full else disk,
        )
    return table


def _topics(sample: "TopSample", rows: int) -> "Table":
    table = _table(_title("Topics", len(sample.topics), rows), "TOPIC", ">IN/s", ">OUT/s", ">LAG")
    for row in sample.topics[:rows]:
        table.add_row(row.name, _rate(row.in_rate), _rate(row.out_rate), f"{row.lag:,}")
    return table


def _groups(sample: "TopSample", rows: int) -> "Table":
    table = _table(_title("Groups", len(sample.groups), rows), "GROUP", "TOPIC", ">OUT/s", ">LAG", ">BEHIND")
    for row in sample.groups[:rows]:
        lag = f"[yellow]{row.lag:,}[/]" if row.lag else "0"
        table.add_row(row.group, row.topic, _rate(row.out_rate), lag, _behind(row.behind_ms))
    return table


def _title(name: str, count: int, rows: int) -> str:
    return name if count <= rows else f"{name} ({rows} of {count})"


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def _behind(ms: int | None) -> str:
    from pyromq.cli.times import remaining

    return "" if ms is None else remaining(max(ms, 1))
