"""`pyromq dlq replay`: asked first if there are many, then a result for each dead letter, then the sum."""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from pyromq.cli import output
from pyromq.cli.bars import bar
from pyromq.cli.confirmation import OR_LOOK_FIRST, confirm
from pyromq.cli.credentials import client_settings
from pyromq.cli.messages.dlq import LetterChoice, say_none
from pyromq.cli.times import written
from pyromq.client.dead_letter import (
    DeadLetterFilter,
    ReplayOutcome,
    ReplayResult,
    ReplayTo,
)
from pyromq.client.sync.dead_letters import DeadLetters
from pyromq.errors import ConfigError

#: From this many on they are counted and asked about first, and a bar is shown.
MANY = 20
_STYLES = {
    ReplayOutcome.REPLAYED: "green",
    ReplayOutcome.WOULD_REPLAY: "cyan",
    ReplayOutcome.SKIPPED: "dim",
    ReplayOutcome.FAILED: "red",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterReplay:
    """The options of a replay."""

    choice: LetterChoice
    is_all: bool
    is_to_topic: bool
    rate: float | None
    is_rehearsal: bool
    is_again: bool
    is_sure: bool
    stop_after: int
    make_readable: bool
    is_json: bool

    @property
    def to(self) -> ReplayTo:
        """The receiver of the messages."""
        return ReplayTo.TOPIC if self.is_to_topic else ReplayTo.GROUP

    def check(self) -> None:
        """Raise ConfigError unless the options say which dead letters are meant."""
        if self.is_all and not self.choice.is_everything:
            raise ConfigError("--all goes with no other choice; leave it out, or the others")
        if not self.is_all and self.choice.is_everything:
            raise ConfigError(
                "say which dead letters: --key, --tag, --topic, --since, --until, --id, --limit, or --all"
            )


@dataclass(slots=True)
class ReplayReport:
    """The counts of replayed dead letters so far."""

    is_json: bool
    #: Whether a bar has the terminal, so that failures are told when it is gone.
    is_quiet: bool
    counts: Counter[ReplayOutcome] = field(default_factory=Counter)
    failures_in_a_row: int = 0
    is_stopped: bool = False
    _kept: list[ReplayResult] = field(default_factory=list)
    _began_at: float = field(default_factory=time.monotonic)

    @property
    def is_good(self) -> bool:
        """Whether nothing failed and nothing was left."""
        return not self.counts[ReplayOutcome.FAILED] and not self.is_stopped

    def add(self, result: ReplayResult) -> None:
        """Count a result, and print it."""
        self.counts[result.outcome] += 1
        is_failure = result.outcome is ReplayOutcome.FAILED
        self.failures_in_a_row = self.failures_in_a_row + 1 if is_failure else 0
        if self.is_json:
            output.say_json(_record(result))
        elif not self.is_quiet:
            output.say(_line(result))
        elif is_failure:
            self._kept.append(result)

    def end(self) -> None:
        """Print what is left to be said."""
        for result in self._kept:
            output.say(_line(result))
        if self.is_json:
            output.say_json(
                {outcome.replace("-", "_"): self.counts[outcome] for outcome in ReplayOutcome}
                | {"is_stopped": self.is_stopped}
            )
            return
        seconds = time.monotonic() - self._began_at
        parts = [f"{count:,} {outcome.replace('-', ' ')}" for outcome, count in self.counts.items()]
        output.say(f"{', '.join(parts) or 'nothing to do'} in {seconds:.1f} s")
        if not self.is_good:
            output.note("run it again when the cause is gone: what is replayed already is skipped")


def run_replay(replaying: LetterReplay, name_server: str) -> bool:
    """Replay, print what became of each, and return whether all that were meant are replayed."""
    replaying.check()
    output.outlive_reader()
    choice, wanted = replaying.choice, replaying.choice.wanted()
    has_terminal = sys.stderr.isatty() and not replaying.is_json
    with DeadLetters(name_server, client_settings()) as letters:
        if replaying.make_readable:
            letters.make_readable(choice.group)
        total = None
        if not replaying.is_rehearsal and (has_terminal or not replaying.is_sure):
            total, wanted = _counted(letters, choice.group, wanted)
            if total == 0 and not replaying.is_json:
                say_none(letters, choice.group)
                return True
            if total >= MANY and not replaying.is_sure:
                _ask(replaying, total)
        has_bar = has_terminal and total is not None and total >= MANY
        report = ReplayReport(replaying.is_json, is_quiet=has_bar and sys.stdout.isatty())
        try:
            with bar("replaying", total, prints_lines=not report.is_quiet) as advance:
                for result in _results(letters, replaying, wanted):
                    report.add(result)
                    advance()
                    if 0 < replaying.stop_after <= report.failures_in_a_row:
                        report.is_stopped = True
                        break
        finally:
            report.end()
        if not report.counts and not replaying.is_json:
            say_none(letters, choice.group)
    return report.is_good


def _results(
    letters: DeadLetters, replaying: LetterReplay, wanted: DeadLetterFilter
) -> Iterator[ReplayResult]:
    group, again = replaying.choice.group, replaying.is_again
    if replaying.is_rehearsal:
        return letters.rehearse(group, wanted, to=replaying.to, again=again)
    return letters.replay(group, wanted, to=replaying.to, rate=replaying.rate, again=again)


def _counted(letters: DeadLetters, group: str, wanted: DeadLetterFilter) -> tuple[int, DeadLetterFilter]:
    """Return how many are meant, and a filter that means these and none that dies from now on."""
    count, last_ms = 0, 0
    for letter in letters.read(group, replace(wanted, limit=None)):
        count += 1
        last_ms = letter.died_at_ms
    return count, replace(wanted, until_ms=last_ms + 1)


def _ask(replaying: LetterReplay, total: int) -> None:
    choice = replaying.choice
    limit = choice.limit
    count = f"{total:,}" if limit is None or limit >= total else f"{limit:,} of {total:,}"
    where = "their first topics, for every group" if replaying.is_to_topic else f"%RETRY%{choice.group}"
    question = f"Replay {count} dead letters of group {choice.group} to {where}?"
    confirm(question, is_yes=False, or_else=OR_LOOK_FIRST)


def _line(result: ReplayResult) -> str:
    letter = result.letter
    head = f"{output.paint(f'{result.outcome:<12}', _STYLES[result.outcome])}  {letter.message_id}"
    if result.outcome is ReplayOutcome.FAILED:
        return f"{head}  {result.error}"
    queue = result.queue
    if queue is None:
        return f"{head}  {letter.topic or '?'} → {result.destination} on {letter.message.queue.broker_name}"
    place = f"{queue.topic} {queue.broker_name} queue {queue.queue_id} offset {result.queue_offset}"
    new_id = output.paint(result.offset_message_id or "", "dim")
    if result.outcome is ReplayOutcome.SKIPPED:
        return f"{head}  replayed {written(result.stored_at_ms or 0)} → {place}  {new_id}"
    return f"{head}  {letter.topic or '?'} → {place}  {new_id}"


def _record(result: ReplayResult) -> dict[str, Any]:
    letter, queue = result.letter, result.queue
    return {
        "outcome": result.outcome,
        "group": letter.group,
        "topic": letter.topic,
        "tags": letter.message.tags,
        "keys": letter.message.keys,
        "message_id": letter.message_id,
        "dead_letter_id": letter.place_id,
        "destination": result.destination or None,
        "broker": letter.message.queue.broker_name,
        "queue": None if queue is None else queue.queue_id,
        "offset": result.queue_offset,
        "offset_message_id": result.offset_message_id,
        "replayed_at_ms": result.stored_at_ms,
        "error": None if result.error is None else str(result.error),
    }
