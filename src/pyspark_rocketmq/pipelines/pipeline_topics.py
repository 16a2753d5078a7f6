"""The topics of a pipeline: whether they are there, and the sinks' made where they are not."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import yaml

from pyromq.client.sync.admin import Admin
from pyromq.errors import PyroError
from pyspark_rocketmq.failures import ReadFailed
from pyspark_rocketmq.pipelines.document import DocumentPart, Findings
from pyspark_rocketmq.pipelines.spec import Pipeline, Sink, SinkKind
from pyspark_rocketmq.sink.sink_options import read_sink_options
from pyspark_rocketmq.source.source_cluster import SourceCluster
from pyspark_rocketmq.source.source_options import ClusterConnection, TopicChoice, read_stream_options

#: The setting in which a declarative project names the topics of its sinks.
TOPICS_KEY: Final = "pyromq.topics"


def check_topics(pipeline: Pipeline, findings: Findings) -> list[Sink]:
    """Note what cannot be read, or asked; return the sinks whose topic is not there."""
    options = read_stream_options(pipeline.source)
    silent: set[ClusterConnection] = set()
    _is_there(options.connection, options.choice, pipeline.source_part, silent, findings)
    missing = []
    for sink in pipeline.sinks:
        if sink.kind is SinkKind.TOPIC:
            connection = read_sink_options(sink.options).connection
            if connection.creates_topics:
                continue
            choice = TopicChoice("topic", topics=(sink.target,))
            if not _is_there(connection, choice, sink.part, silent, Findings()) and connection not in silent:
                missing.append(sink)
    return missing


def note_missing(sinks: list[Sink], findings: Findings) -> None:
    """Note the sinks whose topic is not there, with what makes it."""
    for sink in sinks:
        findings.add(
            sink.part,
            f"topic {sink.target!r} does not exist; run the pipeline with --create-topics to create it, or "
            "set the sink's option createTopics: true, and its first row does",
        )


def create_topics(sinks: list[Sink]) -> None:
    """Make the topics of sinks."""
    for sink in sinks:
        connection = replace(read_sink_options(sink.options).connection, creates_topics=True)
        with Admin(connection.name_server, connection.settings()) as admin:
            admin.create_topic(sink.target)


def _is_there(
    connection: ClusterConnection,
    choice: TopicChoice,
    part: DocumentPart,
    silent: set[ClusterConnection],
    findings: Findings,
) -> bool:
    if connection in silent:
        return False
    try:
        with SourceCluster(connection, None) as cluster:
            cluster.queues(choice)
    except ReadFailed as error:
        findings.add(part, str(error))
        return False
    except PyroError as error:
        # Told once, and not for each topic of the cluster.
        silent.add(connection)
        findings.add(
            part,
            f"name server {connection.name_server} cannot be asked: {error}; "
            "is it running? `pyromq up` starts one",
        )
        return False
    return True


def missing_declared(spec: Path, name_server: str) -> list[str]:
    """Return which of the topics that a declarative project writes to are not there.

    Such a project is Python, and what it writes to cannot be seen from outside; so it names its topics in the
    setting `pyromq.topics`.
    """
    document = yaml.safe_load(spec.read_text(encoding="utf-8"))
    settings = document.get("configuration", {}) if isinstance(document, dict) else {}
    topics = [topic.strip() for topic in str(settings.get(TOPICS_KEY, "")).split(",") if topic.strip()]
    connection = ClusterConnection(name_server.replace(",", ";"))
    with SourceCluster(connection, None) as cluster:
        return [topic for topic in topics if not _has(cluster, topic)]


def _has(cluster: SourceCluster, topic: str) -> bool:
    try:
        cluster.queues(TopicChoice("topic", topics=(topic,)))
    except ReadFailed:
        return False
    return True
