"""The frame of all jobs of `pyromq job`: the place of Spark, progress, signals, and the end of a job."""

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
from pyromq.cli.servers.data_folder import default_folder, prepare
from pyromq.errors import ConfigError
from pyspark_rocketmq.pipelines.session_log import quiet_session
from pyspark_rocketmq.session import SparkPlace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_rocketmq.jobs.job_runs import JobProgress, Watch
    from pyspark_rocketmq.source.source_options import ClusterConnection

STATUS_STOPPED: Final = 130
#: Seconds between two lines of progress where there is no terminal.
LINE_S: Final = 10.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class JobPlace:
    """The place where Spark runs, and the reader of the output."""

    master: str | None
    remote: str | None
    settings: tuple[str, ...]
    is_json: bool

    @property
    def spark(self) -> SparkPlace:
        """The place where Spark runs."""
        return SparkPlace(self.master, self.remote, pairs(self.settings, "--conf"))

    @contextmanager
    def session(self, name: str) -> Iterator["SparkSession"]:
        """Start Spark."""
        if not self.is_json:
            output.note(f"starting Spark ({self.remote or self.master or 'on this machine'})")
        # Its own log would mix with ours, and with JSON on standard output.
        log = prepare(default_folder(os.environ) / "jobs") / "spark.log"
        with quiet_session(name, self.spark, log) as spark:
            yield spark

    @contextmanager
    def watch(self, verb: str) -> Iterator["Watch"]:
        """Show how far a job is; a first signal asks it to stop, and a second one ends the program."""
        from pyspark_rocketmq.jobs.job_runs import Watch

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

    def _teller(self, verb: str, closing: ExitStack) -> Callable[["JobProgress"], None]:
        if self.is_json:
            return _tell_json
        if not sys.stderr.isatty():
            return _Lines(verb).tell
        from pyromq.cli.progress_bar import row_progress_bar

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


def _tell_json(progress: "JobProgress") -> None:
    output.say_json({"event": "progress", "rows": progress.done, "left": progress.left})


class _Lines:
    """Progress for a log: a line now and then."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._began_at = self._told_at = time.monotonic()
        #: What was done by earlier runs.
        self._before: int | None = None

    def tell(self, progress: "JobProgress") -> None:
        """Print how far it is, if that was not just done."""
        now = time.monotonic()
        if self._before is None:
            self._before = progress.done
        if now - self._told_at < LINE_S:
            return
        self._told_at = now
        rate = (progress.done - self._before) / (now - self._began_at)
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


def connection_of(name_server: str, assignments: Iterable[str]) -> "ClusterConnection":
    """Return how to reach a cluster; raise ConfigError for an option that is none."""
    from pyspark_rocketmq.given import given_options
    from pyspark_rocketmq.source.source_options import NAMES, read_connection

    return read_connection(
        given_options({"nameServer": name_server, **pairs(assignments, "--option")}, NAMES)
    )


def state_folder(kind: str, *what: str) -> Path:
    """Return the folder in which a job notes how far it is: the same for the same job."""
    digest = blake2b("\n".join(what).encode(), digest_size=8).hexdigest()
    return default_folder(os.environ) / "jobs" / f"{kind}-{digest}"
