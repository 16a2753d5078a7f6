"""The specification of a pipeline: one source, SQL steps, sinks; each mistake is noted with its place.

name: orders-per-minute
source: {nameServer: 127.0.0.1:9876, subscribe: orders}      the options of format("rocketmq")
steps: {per_minute: SELECT … FROM source}                    each is a view for those below it
sinks: {answers: {from: per_minute, topic: answers}}         each is a streaming query of its own
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from pyromq.errors import ConfigError
from pyspark_rocketmq.pipelines.document import DocumentPart, Findings, read_document
from pyspark_rocketmq.sink.sink_options import NAMES as SINK_NAMES
from pyspark_rocketmq.sink.sink_options import read_sink_options
from pyspark_rocketmq.source.source_options import read_stream_options

#: The view that the first step reads.
SOURCE_VIEW: Final = "source"
_TOP: Final = ("name", "source", "steps", "sinks", "trigger", "checkpoint", "spark")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_VIEW: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TRIGGER: Final = re.compile(r"(\d+)\s*([a-z]+)", re.IGNORECASE)
#: Short words for times, and Spark's for the same.
_UNITS: Final = {"ms": "milliseconds", "s": "seconds", "min": "minutes", "m": "minutes", "h": "hours"}


class SinkKind(StrEnum):
    """The kind of a sink; the name is the sink's key in the file."""

    TOPIC = "topic"
    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"
    JDBC = "jdbc"


class Mode(StrEnum):
    """The output mode: the part of a result that goes out with each batch."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


#: What each kind can take; a file or a topic cannot take a row back.
MODES: Final = {
    SinkKind.TOPIC: (Mode.APPEND,),
    SinkKind.PARQUET: (Mode.APPEND,),
    SinkKind.DELTA: (Mode.APPEND, Mode.COMPLETE),
    SinkKind.ICEBERG: (Mode.APPEND, Mode.COMPLETE),
    SinkKind.JDBC: (Mode.APPEND, Mode.UPDATE, Mode.COMPLETE),
}


@dataclass(frozen=True, slots=True)
class SqlStep:
    """A view made by a SQL query; `part` knows where its text stands."""

    name: str
    sql: str
    part: DocumentPart


@dataclass(frozen=True, slots=True)
class Sink:
    """The target of a view's rows: a topic, a folder, a table's name, or a database's address."""

    name: str
    kind: SinkKind
    target: str
    view: str
    mode: Mode
    part: DocumentPart
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline's file, read."""

    name: str
    folder: Path
    source: Mapping[str, str]
    source_part: DocumentPart
    steps: tuple[SqlStep, ...]
    sinks: tuple[Sink, ...]
    checkpoint: str
    trigger: str | None
    spark: Mapping[str, str]

    def source_options(self, sink: Sink) -> dict[str, str]:
        """Return the options with which a sink's query reads the source: each shows a lag of its own."""
        group = self.source.get("groupId", self.name)
        return {**self.source, "groupId": group if len(self.sinks) == 1 else f"{group}-{sink.name}"}

    def checkpoint_of(self, sink: Sink) -> str:
        """Return where a sink's query keeps how far it is."""
        return f"{self.checkpoint.rstrip('/')}/{sink.name}"


def read_pipeline(
    path: Path, environment: Mapping[str, str], findings: Findings, name_server: str | None = None
) -> Pipeline | None:
    """Return what a file says, or None with at least one finding. `name_server` stands above the file's."""
    top = read_document(path, environment, findings)
    if top is None:
        return None
    before = len(findings.all)
    parts = top.fields(_TOP, findings)
    for key in ("name", "source", "sinks"):
        if key not in parts:
            findings.add(top, f"{key} is missing")
    if "source" not in parts or "sinks" not in parts:
        return None
    source = _read_source(parts["source"], name_server, findings)
    steps = _read_steps(parts["steps"], findings) if "steps" in parts else ()
    views = [SOURCE_VIEW, *(step.name for step in steps)]
    folder = path.parent.resolve()
    sinks = _SinkReader(source, views, folder, name_server, findings).read(parts["sinks"])
    pipeline = Pipeline(
        name=_read_name(parts, findings),
        folder=folder,
        source=source,
        source_part=parts["source"],
        steps=steps,
        sinks=sinks,
        checkpoint=_path(
            folder, parts["checkpoint"].text(findings) if "checkpoint" in parts else "checkpoint"
        ),
        trigger=_read_trigger(parts, findings),
        spark=_read_texts(parts["spark"], findings) if "spark" in parts else {},
    )
    return pipeline if len(findings.all) == before else None


def _read_name(parts: Mapping[str, DocumentPart], findings: Findings) -> str:
    if "name" not in parts:
        return ""
    name = parts["name"].text(findings)
    if not _NAME.fullmatch(name):
        findings.add(parts["name"], f"{name!r} is no name; use letters, digits, - and _ (it is a group, too)")
    return name


def _read_trigger(parts: Mapping[str, DocumentPart], findings: Findings) -> str | None:
    if "trigger" not in parts:
        return None
    trigger = parts["trigger"].text(findings).strip()
    found = _TRIGGER.fullmatch(trigger)
    unit = found[2].lower() if found else ""
    unit = _UNITS.get(unit, unit)
    if found is None or f"{unit.rstrip('s')}s" not in _UNITS.values():
        findings.add(parts["trigger"], f"{trigger!r} is no time between batches; write '10 seconds'")
        return None
    return f"{found[1]} {unit}"


def _read_source(part: DocumentPart, name_server: str | None, findings: Findings) -> dict[str, str]:
    parts = part.table(findings)
    options = {name: value.option(findings) for name, value in parts.items()}
    if name_server is not None:
        options = {name: text for name, text in options.items() if name.lower() != "nameserver"}
        options["nameServer"] = name_server
    try:
        read_stream_options(options)
    except ConfigError as error:
        note_option(error, parts, part, findings)
    return options


def _read_steps(part: DocumentPart, findings: Findings) -> tuple[SqlStep, ...]:
    steps = []
    for name, value in part.table(findings).items():
        if not _VIEW.fullmatch(name):
            findings.add(value, f"{name!r} is no name for a view; use letters, digits and _")
        elif name == SOURCE_VIEW:
            findings.add(value, f"{SOURCE_VIEW!r} is the source itself; give the step another name")
        else:
            steps.append(SqlStep(name, value.text(findings), value))
    return tuple(steps)


def _read_texts(part: DocumentPart, findings: Findings) -> dict[str, str]:
    return {name: value.option(findings) for name, value in part.table(findings).items()}


@dataclass(slots=True)
class _SinkReader:
    """Reads the sinks, which need to know what else is in the file."""

    source: Mapping[str, str]
    views: list[str]
    folder: Path
    name_server: str | None
    findings: Findings

    def read(self, part: DocumentPart) -> tuple[Sink, ...]:
        """Return the sinks that are whole, and note the others."""
        parts = part.table(self.findings)
        if not parts:
            self.findings.add(part, "there is no sink; say where the rows go")
        return tuple(sink for name, value in parts.items() if (sink := self._read_sink(name, value)))

    def _read_sink(self, name: str, part: DocumentPart) -> Sink | None:
        findings = self.findings
        kinds = [str(kind) for kind in SinkKind]
        fields = part.fields((*kinds, "from", "mode", "partitionBy", "table", "options"), findings)
        chosen = [kind for kind in SinkKind if kind in fields]
        if not _NAME.fullmatch(name):
            findings.add(part, f"{name!r} is no name; use letters, digits, - and _")
        if len(chosen) != 1:
            findings.add(part, f"it needs one of {', '.join(kinds)}, and has {len(chosen)}")
            return None
        kind = chosen[0]
        sink = Sink(
            name=name,
            kind=kind,
            target=self._target(kind, fields[kind].text(findings)),
            view=self._view(fields),
            mode=self._mode(kind, fields),
            part=part,
            partition_by=tuple(fields["partitionBy"].texts(findings)) if "partitionBy" in fields else (),
            options=_read_texts(fields["options"], findings) if "options" in fields else {},
        )
        return self._completed(sink, fields)

    def _target(self, kind: SinkKind, text: str) -> str:
        is_path = kind is SinkKind.PARQUET or (kind is SinkKind.DELTA)
        return _path(self.folder, text) if is_path else text

    def _view(self, fields: Mapping[str, DocumentPart]) -> str:
        if "from" not in fields:
            return self.views[-1]
        view = fields["from"].text(self.findings)
        if view not in self.views:
            self.findings.add(fields["from"], f"there is no step {view!r}; there are {', '.join(self.views)}")
        return view

    def _mode(self, kind: SinkKind, fields: Mapping[str, DocumentPart]) -> Mode:
        if "mode" not in fields:
            return Mode.APPEND
        word = fields["mode"].text(self.findings)
        modes = MODES[kind]
        if word not in modes:
            self.findings.add(
                fields["mode"],
                f"a {kind} sink has no mode {word!r}; it has {', '.join(modes)}. A result that changes can "
                "be appended once it is final: give its time a WATERMARK",
            )
            return Mode.APPEND
        return Mode(word)

    def _completed(self, sink: Sink, fields: Mapping[str, DocumentPart]) -> Sink:
        """Return the sink with the options that its kind needs."""
        if (sink.kind is SinkKind.JDBC) != ("table" in fields):
            text = (
                "table is missing: which one is written to"
                if sink.kind is SinkKind.JDBC
                else "table goes with jdbc"
            )
            self.findings.add(fields.get("table", sink.part), text)
        options = dict(sink.options)
        if sink.kind is SinkKind.JDBC and "table" in fields:
            options |= {"url": sink.target, "dbtable": fields["table"].text(self.findings)}
        if sink.kind is SinkKind.TOPIC:
            options = self._topic_options(sink, fields)
        return Sink(
            sink.name, sink.kind, sink.target, sink.view, sink.mode, sink.part, sink.partition_by, options
        )

    def _topic_options(self, sink: Sink, fields: Mapping[str, DocumentPart]) -> dict[str, str]:
        # The sink's cluster is the source's, unless it is told another one.
        taken = {name.lower() for name in sink.options}
        reach = {
            name.lower(): name for name in SINK_NAMES if name not in ("topic", "delivery", "sendTimeoutMs")
        }
        options = {
            reach[name.lower()]: text
            for name, text in self.source.items()
            if name.lower() in reach and name.lower() not in taken
        }
        options |= {**sink.options, "topic": sink.target}
        try:
            read_sink_options(options)
        except ConfigError as error:
            inner = fields["options"].table(Findings()) if "options" in fields else {}
            note_option(error, {**inner, "topic": fields["topic"]}, sink.part, self.findings)
        return options


def note_option(
    error: ConfigError, parts: Mapping[str, DocumentPart], otherwise: DocumentPart, findings: Findings
) -> None:
    """Note what is wrong with an option, at the part that the error's text begins with, or has in quotes."""
    text = str(error)
    for name, part in parts.items():
        if re.match(rf"{re.escape(name)}\b", text, re.IGNORECASE):
            findings.add(part, in_yaml(error))
            return
        if repr(name).lower() in text.lower():
            findings.add(part, in_yaml(error), part.key_spot)
            return
    findings.add(otherwise, in_yaml(error))


def in_yaml(error: ConfigError) -> str:
    """Return an error about options in the words of the file."""
    return re.sub(
        r"\.option\('(\w+)', (?:'([^']*)'|…)\)", lambda found: f"{found[1]}: {found[2] or '…'}", str(error)
    ).replace("format('rocketmq')", "it")


def _path(folder: Path, text: str) -> str:
    """Return a path of the pipeline's folder; an address of a file system, such as s3://, stays as it is."""
    return text if "://" in text or not text else str(folder / text)
