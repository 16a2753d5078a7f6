"""Running of jobs: work spread over executors, its progress, and the request to stop.

A job goes in rounds. Each round is some tasks whose results come back together; what they did then counts, by
one atomic step. Between two rounds a job can stop, and one that is killed inside of one repeats that round.
"""

import base64
import pickle
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyromq.errors import PyroError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

_WORK: Final = "work"
_RESULT: Final = pa.schema([("number", pa.int64()), ("result", pa.binary())])
#: The last line of a Python traceback: an error's class, and what it says.
_RAISED: Final = re.compile(r"^(?:(?:[a-z_]\w*\.)+([A-Z]\w*)|([A-Z]\w*Error)): (.+)$", re.MULTILINE)
_FRAMES: Final = ("PythonException", "SparkException", "StreamingQueryException", "PySparkRuntimeError")


class JobFailed(PyroError):
    """Spark gave a job up; the text is what went wrong in the task, not Spark's trace of it."""


class TaskSource(DataSource):
    """Tasks as a table: a row for each, with its result. `mapInArrow` would do, if it did not want pandas."""

    @classmethod
    def name(cls) -> str:
        """Return the name that `format` takes."""
        return "rocketmq_tasks"

    def schema(self) -> str:
        """Return the number of a task, and what it gave."""
        return "number bigint, result binary"

    def reader(self, schema: StructType) -> "TaskReader":
        """Return who does the tasks."""
        return TaskReader(self.options[_WORK])


@dataclass
class NumberedTask(InputPartition):
    """One of the tasks."""

    number: int


class TaskReader(DataSourceReader):
    """Does a task for each partition."""

    def __init__(self, packed: str) -> None:
        self._packed = packed

    def partitions(self) -> Sequence[InputPartition]:
        """Return a partition for each task."""
        return [NumberedTask(number) for number in range(len(_unpacked(self._packed)[1]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Do a task."""
        assert isinstance(partition, NumberedTask), "these are ours"
        work, tasks = _unpacked(self._packed)
        result = pickle.dumps(work(tasks[partition.number]))
        columns = [pa.array([partition.number], pa.int64()), pa.array([result], pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, schema=_RESULT)


def _packed(work: Any) -> str:
    # By cloudpickle, so that a package that `register` sends by value is sent here too.
    return base64.b64encode(cloudpickle.dumps(work)).decode()  # type: ignore[no-untyped-call]  # pyspark's own


def _unpacked(text: str) -> tuple[Callable[[Any], Any], list[Any]]:
    work, tasks = pickle.loads(base64.b64decode(text))
    return work, tasks


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The progress of a job: rows that are done, and those that are left, if that is known."""

    done: int
    left: int | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Watch:
    """The observer of a job: it is told the progress, and may ask the job to stop."""

    tell: Callable[[JobProgress], None] = field(default=lambda _: None)
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def is_stopped(self) -> bool:
        """Whether the job shall end at its next chance."""
        return self.stop.is_set()


def run_tasks(spark: "SparkSession", work: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
    """Do each task on some executor, and return what they gave, in order; raise JobFailed if one fails."""
    if not tasks:
        return []

    try:
        spark.dataSource.register(TaskSource)
        rows = (
            spark.read.format(TaskSource.name()).option(_WORK, _packed((work, list(tasks)))).load().collect()
        )
    except PySparkException as error:
        raise failed(error) from error
    found = {row.number: pickle.loads(row.result) for row in rows}
    return [found[number] for number in range(len(tasks))]


def width(spark: "SparkSession") -> int:
    """Return how many tasks can run at once, as far as that is known."""
    try:
        return spark.sparkContext.defaultParallelism
    except PySparkException:
        # A client of Spark Connect does not know.
        return 8


def failed(error: PySparkException) -> JobFailed:
    """Return what went wrong inside of Spark in one line, where it can be found in the trace."""
    text = str(error)
    raised = [said for kind, _, said in _RAISED.findall(text) if kind not in _FRAMES]
    if raised:
        return JobFailed(raised[-1])
    return JobFailed(text.strip().splitlines()[0] if text.strip() else type(error).__name__)
