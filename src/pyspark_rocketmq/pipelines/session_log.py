"""Spark's own log in a file, so that a terminal shows the pipeline and not the JVM.

The JVM and its workers inherit the standard output and error of the process that starts them; so these lead
into the file while the session starts, and back again.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_rocketmq.session import SparkPlace, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def quiet_session(name: str, place: SparkPlace, log: Path) -> Iterator["SparkSession"]:
    """Start a session whose log goes into a file, and end it."""
    with ExitStack() as stack:
        with spark_log(log):
            session = stack.enter_context(spark_session(name, place))
        yield session


@contextmanager
def spark_log(path: Path) -> Iterator[None]:
    """Let what is started in the block write its output into a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    try:
        with path.open("ab") as file:
            for number in kept:
                os.dup2(file.fileno(), number)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
