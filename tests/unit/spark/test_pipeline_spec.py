"""A pipeline's file: what it says, and what is said of one that is wrong."""

from pathlib import Path

import pytest

from pyspark_rocketmq.pipelines.document import Findings
from pyspark_rocketmq.pipelines.project import TEMPLATES
from pyspark_rocketmq.pipelines.spec import Mode, Pipeline, SinkKind, read_pipeline

GOOD = """\
name: sums
source:
  nameServer: ns:9876
  subscribe: orders
  maxMessagesPerTrigger: 1000
steps:
  told: |
    SELECT CAST(body AS STRING) AS body
    FROM source
sinks:
  answers:
    topic: answers
  table:
    from: source
    parquet: out/table
    partitionBy: [topic, queue_id]
"""


def read(folder: Path, text: str, **environment: str) -> tuple[Pipeline | None, list[str]]:
    file = folder / "pipeline.yml"
    file.write_text(text)
    findings = Findings()
    pipeline = read_pipeline(file, environment, findings)
    return pipeline, [str(finding).removeprefix(f"{file}:") for finding in findings.all]


def good(folder: Path, text: str = GOOD, **environment: str) -> Pipeline:
    pipeline, findings = read(folder, text, **environment)
    assert pipeline is not None, findings
    return pipeline


def test_a_file_is_read_with_its_source_steps_and_sinks(tmp_path: Path) -> None:
    pipeline = good(tmp_path)

    answers, table = pipeline.sinks
    assert pipeline.source["maxMessagesPerTrigger"] == "1000"
    assert [step.name for step in pipeline.steps] == ["told"]
    assert (answers.kind, answers.target, answers.view, answers.mode) == (
        SinkKind.TOPIC,
        "answers",
        "told",
        Mode.APPEND,
    )
    assert answers.options == {"nameServer": "ns:9876", "topic": "answers"}
    assert (table.view, table.partition_by) == ("source", ("topic", "queue_id"))


def test_the_file_that_init_writes_has_no_mistake(tmp_path: Path) -> None:
    pipeline = good(tmp_path, (TEMPLATES / "pipeline.yml").read_text())

    assert pipeline.source["nameServer"] == "127.0.0.1:9876"


def test_paths_are_those_of_the_files_folder_and_addresses_stay(tmp_path: Path) -> None:
    here = good(tmp_path)
    far = good(
        tmp_path, GOOD.replace("out/table", "s3://bucket/table") + "checkpoint: s3://bucket/checkpoint\n"
    )

    assert here.sinks[1].target == str(tmp_path / "out/table")
    assert here.checkpoint_of(here.sinks[1]) == str(tmp_path / "checkpoint/table")
    assert far.sinks[1].target == "s3://bucket/table"
    assert far.checkpoint_of(far.sinks[1]) == "s3://bucket/checkpoint/table"


def test_each_of_several_sinks_has_a_group_of_its_own_so_that_its_lag_is_seen(tmp_path: Path) -> None:
    two = good(tmp_path)
    one = good(tmp_path, GOOD.partition("  table:")[0])

    assert [two.source_options(sink)["groupId"] for sink in two.sinks] == ["sums-answers", "sums-table"]
    assert one.source_options(one.sinks[0])["groupId"] == "sums"


def test_a_variable_of_the_environment_is_filled_in_and_one_that_is_not_set_is_named(tmp_path: Path) -> None:
    text = GOOD.replace("ns:9876", "${NS}").replace("subscribe: orders", "subscribe: ${TOPIC:-orders}")

    filled = good(tmp_path, text, NS="other:1")
    _, findings = read(tmp_path, text)

    assert (filled.source["nameServer"], filled.source["subscribe"]) == ("other:1", "orders")
    assert findings[0].startswith("3:15: source.nameServer: the variable NS is not set")


def test_a_name_server_that_is_told_stands_above_the_files(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yml"
    file.write_text(GOOD)

    pipeline = read_pipeline(file, {}, Findings(), "told:9876")

    assert pipeline is not None
    assert pipeline.source["nameServer"] == "told:9876"
    assert pipeline.sinks[0].options["nameServer"] == "told:9876"


def test_values_with_structure_become_options_as_spark_takes_them(tmp_path: Path) -> None:
    text = GOOD.replace(
        "subscribe: orders", "subscribe: [orders, returns]\n  startingOffsets: {orders: {broker-a: {'0': 5}}}"
    )

    pipeline = good(tmp_path, text)

    assert pipeline.source["subscribe"] == "orders,returns"
    assert pipeline.source["startingOffsets"] == '{"orders": {"broker-a": {"0": 5}}}'


TOPIC = "    topic: answers"
#: What is written instead of what, and how the finding begins.
MISTAKES = [
    ("steps:", "stpes:", "6:1: stpes: there is no such key; did you mean 'steps'?"),
    (
        "subscribe:",
        "subscrib:",
        "4:3: source.subscrib: it has no option 'subscrib'; did you mean 'subscribe'?",
    ),
    ("1000", "many", "5:26: source.maxMessagesPerTrigger: maxMessagesPerTrigger is 'many'; it is a whole"),
    (TOPIC, "    topik: answers", "12:5: sinks.answers.topik: there is no such key; did you mean 'topic'?"),
    (TOPIC, "    from: told", "12:5: sinks.answers: it needs one of topic, parquet"),
    (TOPIC, "    topic: a\n    delta: b", "12:5: sinks.answers: it needs one of topic, parquet"),
    (TOPIC, TOPIC + "\n    mode: update", "13:11: sinks.answers.mode: a topic sink has no mode 'update'"),
    (TOPIC, TOPIC + "\n    options: {delivry: x}", "13:15: sinks.answers.options.delivry: it has no option"),
    (TOPIC, "    topic: 'no topic'", "12:12: sinks.answers.topic: topic is 'no topic'"),
    (
        "from: source",
        "from: tolt",
        "14:11: sinks.table.from: there is no step 'tolt'; there are source, told",
    ),
    (TOPIC, "    jdbc: jdbc:sqlite:x", "12:5: sinks.answers: table is missing"),
    ("  told: |", "  source: |", "7:11: steps.source: 'source' is the source itself"),
    ("  told: |", "  to-ld: |", "7:10: steps.to-ld: 'to-ld' is no name for a view"),
    ("name: sums", "name: sums\ntrigger: soon", "2:10: trigger: 'soon' is no time between batches"),
    ("name: sums", "name: a b", "1:7: name: 'a b' is no name"),
    ("name: sums", "nothing: [", "3:13: this is no YAML"),
    ("    FROM source", "   FROM source", "9:4: this is no YAML"),
    ("  subscribe: orders\n", "", "3:3: source: it needs subscribe: orders to know what to read"),
    ("  table:", "  answers:", "13:3: sinks.answers: is here twice"),
]


@pytest.mark.parametrize(("old", "new", "finding"), MISTAKES)
def test_what_is_wrong_is_told_with_its_place_its_name_and_what_to_do(
    tmp_path: Path, old: str, new: str, finding: str
) -> None:
    assert old in GOOD

    pipeline, findings = read(tmp_path, GOOD.replace(old, new, 1))

    assert pipeline is None
    assert any(found.startswith(finding) for found in findings), findings


def test_all_mistakes_are_told_together(tmp_path: Path) -> None:
    text = (
        GOOD.replace("name: sums", "name: a b")
        .replace("1000", "many")
        .replace("from: source", "from: nowhere")
    )

    _, findings = read(tmp_path, text)

    assert [finding.split(":")[0] for finding in findings] == ["5", "14", "1"]


@pytest.mark.parametrize(
    ("written", "taken"),
    [("10 seconds", "10 seconds"), ("1 minute", "1 minute"), ("250ms", "250 milliseconds")],
)
def test_the_time_between_batches_is_written_short_or_long(tmp_path: Path, written: str, taken: str) -> None:
    assert good(tmp_path, f"{GOOD}trigger: {written}\n").trigger == taken


def test_an_empty_file_is_told_what_writes_one(tmp_path: Path) -> None:
    _, findings = read(tmp_path, "")

    assert "pyromq pipeline init" in findings[0]


def test_a_place_in_the_sql_is_a_place_in_the_file(tmp_path: Path) -> None:
    block = good(tmp_path).steps[0].part.spot_inside(2, 5)
    line = good(
        tmp_path, GOOD.replace("|\n    SELECT CAST(body AS STRING) AS body\n    FROM", "SELECT * FROM")
    )

    assert (block.line, block.column) == (9, 10)
    spot = line.steps[0].part.spot_inside(1, 7)
    assert (spot.line, spot.column) == (7, 16)
