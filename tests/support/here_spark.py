"""What a job needs of Spark to spread its tasks, done in this process: registered sources, read at once."""

from types import SimpleNamespace
from typing import Any

from pyspark.sql.datasource import CaseInsensitiveDict, DataSource
from pyspark.sql.types import StructType
from spark_stage import sent


class HereSpark:
    """A session without a JVM. Everything that would go to another process is pickled on its way."""

    def __init__(self) -> None:
        self.sparkContext = SimpleNamespace(defaultParallelism=2)
        self.dataSource = self
        self._sources: dict[str, type[DataSource]] = {}
        self._format = ""
        self._options: dict[str, str] = {}

    def register(self, source: type[DataSource]) -> None:
        self._sources[source.name()] = source

    @property
    def read(self) -> "HereSpark":
        reader = HereSpark()
        reader._sources = self._sources
        return reader

    def format(self, name: str) -> "HereSpark":
        self._format = name
        return self

    def option(self, name: str, value: str) -> "HereSpark":
        self._options[name.lower()] = value
        return self

    def load(self) -> "HereSpark":
        return self

    def collect(self) -> list[Any]:
        made = self._sources[self._format](CaseInsensitiveDict(self._options))
        reader = made.reader(StructType())
        executor = sent(reader)
        return [
            SimpleNamespace(**row)
            for task in reader.partitions()
            for batch in executor.read(sent(task))
            for row in batch.to_pylist()
        ]
