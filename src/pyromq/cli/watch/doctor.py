"""Runs an examination from a shell, and shows its report."""

import asyncio
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import typer

from pyromq.cli import output
from pyromq.cli.credentials import client_settings
from pyromq.cli.exit_status import FAILED
from pyromq.client.aio.asking import Asker
from pyromq.client.observation.observation import Tell
from pyromq.doctor.checks.check import Check
from pyromq.doctor.examination import HealthReport, chosen_checks, examine
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.survey import Scope
from pyromq.doctor.words import counted

WIDTH_MAX = 110
#: What a command begins with that can be pasted, and is therefore never broken into lines.
_COMMANDS = ("pyromq ", "mv ")
_MARKS = {
    Severity.PROBLEM: ("✗", "red"),
    Severity.WARNING: ("!", "yellow"),
    Severity.NOTE: ("·", "cyan"),
}


@dataclass(frozen=True, slots=True)
class DoctorOrder:
    """The options of the command."""

    name_server: str
    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    watch_s: float = 10.0
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    for_production: bool = False


def list_checks(*, for_production: bool, is_json: bool) -> None:
    """Print the names of all checks and what they look for."""
    checks = chosen_checks(for_production=for_production)
    for check in checks:
        if is_json:
            output.say_json({"check": check.name, "title": check.title})
    if not is_json:
        for line in output.columns([[check.name, check.title] for check in checks]):
            output.say(line)


def run_doctor(asked: DoctorOrder, *, is_json: bool) -> None:
    """Examine a cluster, print the report, and end with status 1 if something is wrong."""
    checks = chosen_checks(asked.only, asked.skip, for_production=asked.for_production)
    with _progress() as tell:
        report = asyncio.run(_examine(asked, checks, tell))
    if is_json:
        output.say_json(report.as_json())
    else:
        show(report)
    if not report.is_well:
        raise typer.Exit(FAILED)


async def _examine(asked: DoctorOrder, checks: tuple[Check, ...], tell: Tell) -> HealthReport:
    asker = Asker(asked.name_server, client_settings())
    await asker.start()
    try:
        return await examine(asker, Scope(asked.groups, asked.topics, asked.watch_s), checks, tell)
    finally:
        await asker.close()


def show(report: HealthReport) -> None:
    """Print a report for a person, the worst first."""
    width = min(shutil.get_terminal_size((100, 24)).columns, WIDTH_MAX)
    for finding in report.findings:
        for line in lines_of(finding, width):
            output.say(line)
        output.say("")
    for sentence in sorted(report.survey.could_not):
        output.say(output.paint(f"could not {sentence}", "dim"))
    output.say(summary(report))


def lines_of(finding: Finding, width: int) -> Iterator[str]:
    """Yield a finding's lines; commands stay whole, however long, so that they can be pasted."""
    mark, colour = _MARKS[finding.severity]
    head = f"{mark} {finding.severity.value}: "
    first, *rest = textwrap.wrap(f"{head}{finding.message}", width, subsequent_indent="    ")
    yield output.paint(head.rstrip(), colour) + " " + output.paint(first[len(head) :], "bold")
    yield from (output.paint(line, "bold") for line in rest)
    yield from (f"      {line}" for line in finding.shown)
    yield from _told("why", finding.why, width)
    yield from _told("do", finding.do, width)
    yield output.paint(f"    ({finding.check})", "dim")


def summary(report: HealthReport) -> str:
    """Return the last line: the number of things examined, and the verdict."""
    checked = ", ".join(
        counted(count, what.removesuffix("s").replace("_", " ")) for what, count in report.checked.items()
    )
    counts = [
        counted(report.count(severity), severity.value) for severity in Severity if report.count(severity)
    ]
    if report.is_well:
        verdict = output.paint(", ".join(["all is well", *counts]), "green")
    else:
        verdict = output.paint(", ".join(counts), _MARKS[report.findings[0].severity][1])
    return f"{checked}: {verdict}"


def _told(label: str, text: str, width: int) -> Iterator[str]:
    """Yield a labelled text, each of its lines below the first."""
    head, blank = f"    {label + ':':<5}", " " * 9
    for line in text.splitlines():
        if line.startswith(_COMMANDS):
            yield head + output.paint(line, "cyan")
        else:
            for part in textwrap.wrap(line, max(width - len(head), 40)):
                yield head + part
                head = blank
        head = blank


@contextmanager
def _progress() -> Iterator[Tell]:
    """Show on standard error what is being looked at, if a person is there."""
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from pyromq.cli.progress_bar import looking_bar

    with looking_bar() as tell:
        yield tell
