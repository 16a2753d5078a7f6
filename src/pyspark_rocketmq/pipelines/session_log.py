"""Spark's own log in a file, so that a terminal shows the pipeline and not the JVM.

The JVM and its workers inherit the standard output and error of the process that starts them; so these lead
into the file while the session starts, and back again.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
