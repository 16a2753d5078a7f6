"""`pyromq pipeline`: what is written, found wrong and run, for people and for programs."""

import os
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyromq.cli import options, output
from pyromq.cli.credentials import client_settings
from pyromq.cli.spark.pipeline_view import progress_view
from pyromq.errors import ConfigError
from pyspark_rocketmq.java import JavaMissing, check_java
from pyspark_rocketmq.pipelines.project import PipelineKind, Project, create_project, find_project
from pyspark_rocketmq.session import SparkPlace, check_packages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_rocketmq.pipelines.document import Findings
    from pyspark_rocketmq.pipelines.running import RunningPipeline
    from pyspark_rocketmq.pipelines.spec import Pipeline


@dataclass(frozen=True, slots=True)
class SparkChoice:
    """The place where Spark is to run, as the options say."""

    master: str | None = None
    remote: str | None = None
    settings: tuple[str, ...] = ()

    def place(self, settings: dict[str, str] | None = None) -> SparkPlace:
        """Return the place, with a file's settings below those of the options."""
        if self.master and self.remote:
            raise ConfigError("--master and --remote are two ways to the same; give one of them")
        own = {}
        for one in self.settings:
            key, sign, value = one.partition("=")
            if not sign or not key:
                raise ConfigError(f"--conf {one}: it is KEY=VALUE, such as spark.executor.memory=2g")
            own[key] = value
        return SparkPlace(self.master, self.remote, {**(settings or {}), **own})

    def need_java(self) -> None:
        """Raise JavaMissing, with the command that installs it, if a JVM is to start here and cannot."""
        if self.remote is None or not self.remote.startswith("sc://"):
            check_java()


@dataclass(frozen=True, slots=True)
class PipelineOrder:
    """The options of `pipeline run`."""

    spark: SparkChoice
    name_server: str | None
    is_once: bool
    creates_topics: bool
    is_full_refresh: bool
    is_json: bool


def run_init(path: Path, *, is_json: bool) -> None:
    """Write a new pipeline and say what to do with it."""
    kind, files = create_project(path)
    if is_json:
        output.say_json({"kind": kind, "files": [str(file) for file in files]})
        return
    for file in files:
        output.say(f"wrote {file}")
    output.say(f"next  pyromq pipeline check {path}")
    output.say(
        f"then  pyromq pipeline run {path}{' --once' if kind is PipelineKind.STREAMING else ''}"
        " --create-topics"
    )


def run_check(path: Path, choice: SparkChoice, *, name_server: str | None, is_json: bool) -> bool:
    """Tell what is wrong; return whether nothing is."""
    project = find_project(path)
    check_packages()
    if project.kind is PipelineKind.DECLARATIVE:
        choice.need_java()
        rehearsal = PipelineOrder(
            choice, name_server, is_once=True, creates_topics=False, is_full_refresh=False, is_json=is_json
        )
        _run_declarative(project, rehearsal, is_rehearsal=True)
        return True
    from pyspark_rocketmq.pipelines.document import Findings
    from pyspark_rocketmq.pipelines.pipeline_topics import check_topics, note_missing

    findings = Findings()
    java_missing = _java_missing(choice)
    if java_missing is not None:
        output.complain(f"{java_missing}\nUntil then the SQL is not checked")
    pipeline = _read(project, name_server, findings)
    if pipeline is not None:
        note_missing(check_topics(pipeline, findings), findings)
        if java_missing is None:
            with _session(project, pipeline, choice) as spark:
                from pyspark_rocketmq.pipelines.spark_views import check_views

                check_views(spark, pipeline, findings)
    _tell(findings, is_json=is_json)
    if not findings.all and java_missing is None and pipeline is not None and not is_json:
        output.say(f"{project.file}: {len(pipeline.steps)} steps, {len(pipeline.sinks)} sinks, nothing wrong")
    return not findings.all and java_missing is None


def run_pipeline(path: Path, running: PipelineOrder) -> None:
    """Run a pipeline to its end, or until it is told to stop."""
    project = find_project(path)
    check_packages()
    running.spark.need_java()
    if project.kind is PipelineKind.DECLARATIVE:
        _run_declarative(project, running, is_rehearsal=False)
        return
    if running.is_full_refresh:
        raise ConfigError(
            "--full-refresh is for declarative pipelines; remove the checkpoint's folder instead"
        )
    _run_streaming(project, running)


def _run_streaming(project: Project, running: PipelineOrder) -> None:
    from pyspark_rocketmq.pipelines.document import Findings
    from pyspark_rocketmq.pipelines.pipeline_topics import check_topics, create_topics, note_missing

    findings = Findings()
    pipeline = _read(project, running.name_server, findings)
    if pipeline is not None:
        missing = check_topics(pipeline, findings)
        if running.creates_topics and not findings.all:
            create_topics(missing)
        else:
            note_missing(missing, findings)
    _refuse(findings)
    assert pipeline is not None
    if not running.is_json:
        output.note("Spark is starting; this takes some seconds")
    with _session(project, pipeline, running.spark) as spark:
        from pyspark_rocketmq.pipelines.running import start_pipeline
        from pyspark_rocketmq.pipelines.spark_views import check_views

        check_views(spark, pipeline, findings)
        _refuse(findings)
        started = start_pipeline(spark, pipeline, is_once=running.is_once)
        with _stops(started), progress_view(pipeline, is_json=running.is_json) as view:
            for done in started.watch():
                view.show(done)
            view.end()


@contextmanager
def _stops(started: "RunningPipeline") -> Iterator[None]:
    """Take Ctrl-C and SIGTERM for a wish to end; the second one is for at once."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in kept:
        signal.signal(number, lambda *_: started.finish())
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def _session(
    project: Project, pipeline: "Pipeline", choice: SparkChoice
) -> AbstractContextManager["SparkSession"]:
    from pyspark_rocketmq.pipelines.session_log import quiet_session

    return quiet_session(pipeline.name, choice.place(dict(pipeline.spark)), project.file.parent / "spark.log")


def _read(project: Project, name_server: str | None, findings: "Findings") -> "Pipeline | None":
    from pyspark_rocketmq.pipelines.spec import read_pipeline

    return read_pipeline(project.file, os.environ, findings, name_server)


def _tell(findings: "Findings", *, is_json: bool) -> None:
    for finding in findings.all:
        if is_json:
            spot = finding.spot
            output.say_json(
                {
                    "file": spot.file,
                    "line": spot.line,
                    "column": spot.column,
                    "of": finding.of,
                    "problem": finding.text,
                }
            )
        else:
            output.say(str(finding))


def _refuse(findings: "Findings") -> None:
    if findings.all:
        raise ConfigError("\n".join(map(str, findings.all)))


def _java_missing(choice: SparkChoice) -> JavaMissing | None:
    try:
        choice.need_java()
    except JavaMissing as error:
        return error
    return None


def _run_declarative(project: Project, running: PipelineOrder, *, is_rehearsal: bool) -> None:
    from pyspark_rocketmq.pipelines.declarative import ReportLine, check_packages, run_declarative

    check_packages()
    name_server = running.name_server or options.DEFAULT_NAME_SERVER
    _need_declared_topics(project, name_server, running)

    def tell(told: ReportLine) -> None:
        if running.is_json:
            output.say_json({"at": told.at, "text": told.text})
        else:
            output.say(f"{told.at}  {told.text}" if told.at else told.text)

    run_declarative(
        project.file.resolve(),
        running.spark.place(),
        {**os.environ, "NAMESRV_ADDR": name_server},
        tell,
        is_rehearsal=is_rehearsal,
        arguments=("--full-refresh-all",) if running.is_full_refresh else (),
    )


def _need_declared_topics(project: Project, name_server: str, running: PipelineOrder) -> None:
    from pyromq.client.sync.admin import Admin
    from pyspark_rocketmq.pipelines.pipeline_topics import missing_declared

    missing = missing_declared(project.file, name_server)
    if missing and not running.creates_topics:
        raise ConfigError(
            f"{project.file}: topic {missing[0]!r} does not exist; "
            "run the pipeline with --create-topics to create it"
        )
    with Admin(name_server, client_settings()) as admin:
        for topic in missing:
            admin.create_topic(topic)
