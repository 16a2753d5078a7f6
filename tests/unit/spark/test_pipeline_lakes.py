"""What is said of Delta and Iceberg when Spark does not have them, or has those of another Spark."""

import pytest

from pyspark_rocketmq.pipelines.lakes import how_to_add, misfit
from pyspark_rocketmq.pipelines.spark_views import what_spark_says
from pyspark_rocketmq.pipelines.spec import SinkKind

#: As PySpark 4.3 said it of Delta's build for 4.2.
TRACE = """An error occurred while calling o47.count.
: java.lang.NoSuchMethodError: 'void org.apache.spark.sql.execution.LogicalRDD.<init>(scala.collection.Seq)'
\tat org.apache.spark.sql.delta.util.StateCache$CachedDS.$anonfun$cachedDs$4(StateCache.scala:85)
"""


def test_a_format_that_is_missing_is_named_with_the_package_for_the_spark_that_runs() -> None:
    advice = how_to_add(SinkKind.DELTA, "4.2.0")

    assert advice is not None
    assert "spark.jars.packages: 'io.delta:delta-spark_4.2_2.13:4.4.0'" in advice
    assert "spark.sql.extensions: io.delta.sql.DeltaSparkSessionExtension" in advice


@pytest.mark.parametrize(("kind", "newest"), [(SinkKind.DELTA, "4.2"), (SinkKind.ICEBERG, "4.1")])
def test_a_spark_that_is_newer_than_all_builds_is_told_so(kind: SinkKind, newest: str) -> None:
    advice = how_to_add(kind, "4.3.0")

    assert advice is not None
    assert f"the newest is for Spark {newest}" in advice
    assert "or write parquet" in advice


def test_formats_that_spark_always_has_need_nothing() -> None:
    assert how_to_add(SinkKind.PARQUET, "4.3.0") is None


def test_a_build_for_another_spark_is_recognised_by_what_is_missing() -> None:
    said = misfit(TRACE, "4.3.0")

    assert said is not None
    assert said.startswith(
        "a package in spark.jars or spark.jars.packages is built for another Spark than 4.3.0"
    )
    assert "NoSuchMethodError: 'void org.apache.spark.sql.execution.LogicalRDD" in said
    assert what_spark_says(TRACE).startswith("a package in spark.jars")
    assert misfit("[PATH_NOT_FOUND] Path does not exist", "4.3.0") is None


def test_a_format_that_is_not_there_is_no_build_for_another_spark_though_its_class_is_not_found() -> None:
    text = (
        "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta.\n\nJVM stacktrace:\n"
        "Caused by: java.lang.ClassNotFoundException: delta.DefaultSource\n"
    )

    assert misfit(text, "4.3.0") is None
    assert what_spark_says(text) == "Failed to find the data source: delta"
