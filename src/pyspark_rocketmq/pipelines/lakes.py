"""Delta and Iceberg, which Spark does not have by itself: what brings them, and what a misfit looks like.

Each of their builds is for one version of Spark, and loads into another one until a method is missing.
"""

import re
from typing import Final

from pyspark_rocketmq.pipelines.spec import SinkKind

#: The newest builds there were in November 2026: the Spark they are for, their name and their settings.
_NEWEST: Final[dict[SinkKind, tuple[tuple[int, int], str, str]]] = {
    SinkKind.DELTA: (
        (4, 2),
        "io.delta:delta-spark_{spark}_2.13:4.4.0",
        "spark.sql.extensions: io.delta.sql.DeltaSparkSessionExtension, spark.sql.catalog.spark_catalog: "
        "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    ),
    SinkKind.ICEBERG: (
        (4, 1),
        "org.apache.iceberg:iceberg-spark-runtime-{spark}_2.13:1.12.0",
        "spark.sql.catalog.lake: org.apache.iceberg.spark.SparkCatalog, spark.sql.catalog.lake.type: hadoop, "
        "spark.sql.catalog.lake.warehouse: /data/lake",
    ),
}
#: What the JVM says of a class that was compiled against others than those that are there.
_MISFIT: Final = re.compile(
    r"\b(?:java\.lang\.)?(NoSuchMethodError|NoSuchFieldError|NoClassDefFoundError|AbstractMethodError|"
    r"IncompatibleClassChangeError|ClassNotFoundException|IllegalAccessError)\b:?\s*([^\n]{0,120})"
)
#: What Spark says of a format for which it has no package.
NO_FORMAT: Final = "DATA_SOURCE_NOT_FOUND"


def how_to_add(kind: SinkKind, spark_version: str) -> str | None:
    """Return what to do when Spark lacks the format of a sink; None for a format that it always has."""
    if kind not in _NEWEST:
        return None
    newest, package, settings = _NEWEST[kind]
    major, minor = (int(part) for part in spark_version.split(".")[:2])
    lacks = f"this Spark ({spark_version}) has no {kind}"
    if (major, minor) <= newest:
        named = package.format(spark=f"{major}.{minor}")
        return f"{lacks}; add to the file:  spark: {{spark.jars.packages: '{named}', {settings}}}"
    latest = "{}.{}".format(*newest)
    return (
        f"{lacks}, and there is no build of it for this Spark that we know of: the newest is for Spark "
        f"{latest}, {package.format(spark=latest)}. Look for a newer one, and name it in the file:  "
        f"spark: {{spark.jars.packages: …, {settings}}}; or write parquet"
    )


def misfit(text: str, spark_version: str) -> str | None:
    """Return what to do when a trace says that a package was built for another Spark."""
    found = _MISFIT.search(text)
    # A format that is not there at all is a class that was not found as well, if Spark shows its trace.
    if found is None or NO_FORMAT in text:
        return None
    return (
        f"a package in spark.jars or spark.jars.packages is built for another Spark than {spark_version} "
        f"({found[1]}: {found[2].strip()}); take its build for this Spark, or the Spark that it is built for"
    )
