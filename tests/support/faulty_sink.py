"""The Spark sink with something that goes wrong at a chosen step, once.

    .format("faulty").option("faults", '[["kill", "before commit", 1]]').option("faultsFolder", folder)

A fault is what happens, at which step, and in which batch; a file in the folder notes that it did, so that it
does not happen when the batch is tried again. Steps: «before write», «in write» (after the first rows),
«after write», «before commit», «after commit». What happens: «raise», or «kill» of the processes whose ids
are in the file `kill` of the folder.
"""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_rocketmq.data_source import RocketMQSource
from pyspark_rocketmq.sink.sink_options import read_sink_options
from pyspark_rocketmq.sink.write_stream import BATCH_ID, TopicStreamWriter


class Injected(Exception):
    """The fault that a test asked for."""


@dataclass
class Faults:
    """What is to go wrong, and what did."""

    asked: list[list[Any]]
    folder: str

    def at(self, step: str, batch: int) -> None:
        """Let go wrong what is to go wrong here, unless it did before."""
        for what, its_step, its_batch in self.asked:
            done = Path(self.folder, f"{what} {its_step} {its_batch}".replace(" ", "-"))
            if (its_step, its_batch) == (step, batch) and not done.exists():
                done.touch()
                self._happen(what, step)

    def _happen(self, what: str, step: str) -> None:
        if what == "raise":
            raise Injected(step)
        for process in Path(self.folder, "kill").read_text().split():
            os.kill(int(process), signal.SIGKILL)


class FaultyWriter(TopicStreamWriter):
    """The writer, with faults around what it does."""

    def __init__(self, faults: Faults, options: dict[str, str], schema: StructType) -> None:
        super().__init__(read_sink_options(options), schema)
        self._faults = faults

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a partition; only the first one goes wrong."""
        task = TaskContext.get()
        assert task is not None
        if task.partitionId() != 0:
            return super().write(iterator)
        batch = int(task.getLocalProperty(BATCH_ID) or -1)
        self._faults.at("before write", batch)
        written = super().write(self._rows(iterator, batch))
        self._faults.at("after write", batch)
        return written

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        """Publish."""
        self._faults.at("before commit", batchId)
        super().commit(messages, batchId)
        self._faults.at("after commit", batchId)

    def _rows(self, iterator: Iterator[pa.RecordBatch], batch: int) -> Iterator[pa.RecordBatch]:
        for rows in iterator:
            yield rows
            self._faults.at("in write", batch)


class FaultySource(RocketMQSource):
    """`format("faulty")`."""

    @classmethod
    def name(cls) -> str:
        """Return the name that `format` takes."""
        return "faulty"

    def streamWriter(self, schema: StructType, overwrite: bool) -> FaultyWriter:  # noqa: N802  Spark's name
        """Return the writer."""
        options = dict(self.options)
        faults = Faults(json.loads(options.pop("faults")), options.pop("faultsfolder"))
        return FaultyWriter(faults, options, schema)


def register(spark: SparkSession) -> None:
    """Make the sink known; workers cannot import this module, so they are sent it."""
    import faulty_sink

    cloudpickle.register_pickle_by_value(faulty_sink)
    spark.dataSource.register(FaultySource)


def start_query(spark: SparkSession, source: str, checkpoint: str, **options: str) -> Any:
    """Start a query over the text files of a folder: a file a batch, a line a message; it ends by itself."""
    lines = spark.readStream.option("maxFilesPerTrigger", "1").text(source).repartition(2)
    writing = lines.selectExpr("value AS body").writeStream.format("faulty").options(**options)
    return writing.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
