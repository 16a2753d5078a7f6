"""Projects of Spark Declarative Pipelines, run and checked by Spark's own program.

It is `pyspark.pipelines.cli`, which the script `spark-pipelines` starts in a JVM of its own; started by
ourselves it needs one JVM less, and can be told a master as well as a Spark Connect server.
"""

import importlib.util
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyromq.errors import ConfigError
from pyspark_rocketmq.pipelines.spark_views import PipelineFailed, what_spark_says
from pyspark_rocketmq.session import LOCAL, SparkPlace

SPEC_NAMES: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")
#: Settings that a JVM starts with.
DEFAULTS_NAME: Final = "spark-defaults.conf"
#: What Spark Connect needs, by the modules' names.
_NEEDED: Final = ("grpc", "grpc_status", "google.rpc", "pandas", "yaml", "zstandard")
_LINE: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d): (.*)")


@dataclass(frozen=True, slots=True)
class ReportLine:
    """A line of Spark's report, with its time where it has one."""

    at: str | None
    text: str


def check_packages() -> None:
    """Raise ConfigError when packages are missing, with the command that installs them."""
    missing = [name for name in _NEEDED if not _is_installed(name)]
    if missing:
        raise ConfigError(
            f"Spark Declarative Pipelines need {', '.join(missing)}, which {sys.executable} does not have; "
            f"install them with\n{sys.executable} -m pip install 'pyromq[pipelines]'"
        )


def run_declarative(
    spec: Path,
    place: SparkPlace,
    environment: Mapping[str, str],
    tell: Callable[[ReportLine], None],
    *,
    is_rehearsal: bool,
    arguments: tuple[str, ...] = (),
) -> None:
    """Run a project, or only look at it; raise PipelineFailed with what Spark said.

    Ctrl-C and SIGTERM end it: tables keep what is in them, and the next run goes on from there.
    """
    log = spec.parent / "spark.log"
    command = [
        sys.executable,
        "-m",
        "pyspark.pipelines.cli",
        "dry-run" if is_rehearsal else "run",
        "--spec",
        str(spec),
    ]
    with log.open("ab") as errors:
        begin = errors.tell()
        child = subprocess.Popen(
            [*command, *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=spec.parent,
            env={**environment, **_place_variables(place, spec.parent), "PYTHONUNBUFFERED": "1"},
            # A Ctrl-C reaches it through us, once.
            start_new_session=True,
        )
        status = _follow(child, tell)
    if status != 0:
        raise PipelineFailed(f"{_cause(log, begin)}\nall that Spark said is in {log}")


def _follow(child: "subprocess.Popen[str]", tell: Callable[[ReportLine], None]) -> int:
    """Tell each line until the program ends; hand signals on to it."""
    assert child.stdout is not None
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in kept:
        # Python ends orderly on SIGINT, and stops Spark; SIGTERM would leave the JVM behind.
        signal.signal(number, lambda *_: child.send_signal(signal.SIGINT))
    try:
        for line in child.stdout:
            found = _LINE.fullmatch(line.strip())
            if found or line.strip():
                tell(ReportLine(found[1], found[2]) if found else ReportLine(None, line.strip()))
        return child.wait()
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
        if child.poll() is None:
            child.kill()
            child.wait()


def _place_variables(place: SparkPlace, folder: Path) -> dict[str, str]:
    # Some settings count only when a JVM starts with them, and are refused in the project's own file.
    arguments = [part for pair in place.settings.items() for part in ("--conf", "=".join(pair))]
    if (folder / DEFAULTS_NAME).is_file():
        arguments += ["--properties-file", str(folder / DEFAULTS_NAME)]
    variables = {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": shlex.join([*arguments, "pyspark-shell"]),
    }
    if place.is_local:
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    if place.remote is not None or place.is_local:
        return {**variables, "SPARK_REMOTE": place.remote or place.master or LOCAL}
    # A driver here with its executors on a cluster, and Spark Connect between the two of them.
    return {**variables, "SPARK_API_MODE": "connect", "MASTER": place.master or LOCAL}


def _cause(log: Path, begin: int) -> str:
    with log.open("rb") as file:
        file.seek(begin)
        text = file.read().decode(errors="replace")
    raised = re.findall(
        r"^(?:pyspark|grpc)\.[\w.]+(?:Exception|Error): (.+(?:\n(?!\s|Traceback).+)*)", text, re.MULTILINE
    )
    if raised:
        return what_spark_says(raised[-1])
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "Spark ended without a word"


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
