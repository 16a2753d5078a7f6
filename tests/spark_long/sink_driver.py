"""A Spark driver in a process of its own: the query of `faulty_sink`; the argument, JSON, says over what."""

import json
import os
import sys
from pathlib import Path

import faulty_sink
from pyspark.sql import SparkSession


def main() -> None:
    """Run the query to its end, or until something kills it."""
    asked = json.loads(sys.argv[1])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    spark = (
        SparkSession.builder.master(asked["master"])
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config(
            "spark.sql.streaming.checkpointFileManagerClass",
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
        )
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    if asked["dies"]:
        machine = spark.sparkContext._jvm
        assert machine is not None
        process = machine.java.lang.ProcessHandle.current().pid()
        Path(asked["options"]["faultsFolder"], "kill").write_text(f"{process} {os.getpid()}")
    faulty_sink.register(spark)
    faulty_sink.start_query(
        spark, asked["source"], asked["checkpoint"], **asked["options"]
    ).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
