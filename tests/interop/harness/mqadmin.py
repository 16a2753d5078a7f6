"""Apache's mqadmin, 4.9.8 or 5.5.0: one Java machine runs many commands; their output gets a shape."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.servers import apache_home
from harness.toolchains import java_class

#: Seconds that a command may take; only spent where something is wrong.
PATIENCE_S = 120


@dataclass(frozen=True)
class Printed:
    """How a command ended, and what it printed."""

    status: str
    text: str


class Mqadmin:
    """The Java machine; to be used as a context manager. `words` may not have tabs."""

    def __init__(self, folder: Path, version: str = "4.9.8", jars: str = "server-4.9") -> None:
        environment = apache_home(folder)
        (folder / "home/conf/logback_tools.xml").write_text(
            '<configuration><root level="OFF"/></configuration>'
        )
        options = [f"-Duser.home={folder}", "-Djava.security.manager=allow"]
        command = java_class("Mqadmin", version, options, jars=jars)
        self._errors = (folder / "mqadmin.err").open("wb")
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def run(self, *words: str, lines: int = 0) -> Printed:
        """Run a command; one that runs for ever is interrupted when it has printed so many lines."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join((str(PATIENCE_S), str(lines), *words)).encode() + b"\n")
        self._process.stdin.flush()
        status, size = self._process.stdout.readline().split()
        return Printed(status.decode(), self._process.stdout.read(int(size)).decode())


#: What differs from run to run, and what stands for it: in this order.
_MASKS = (
    (re.compile(r"(Tps|putMessageDistributeTime)\s*:.*"), r"\1: RATES"),
    (re.compile(r"\b\d{1,3}(\.\d{1,3}){3}(:\d+)?(@[\w#.]+)?"), "ADDRESS"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T#]\d\d:\d\d:\d\d([:,.]\d{3})?\b"), "TIME"),
    (re.compile(r"\b\d{17}\b|\b\d{4}-\d\d-\d\d\b"), "TIME"),
    (re.compile(r"(?<![\w.-])-?\d+\.\d+([eE]-?\d+)?(?![\w.-])"), "N"),
    (re.compile(r"\b[0-9A-Fa-f]{16,}\b"), "ID"),
    (re.compile(r"(?<![a-zA-Z0-9/])/[\w./-]+"), "PATH"),
    (re.compile(r"\b\d+ms\b"), "Nms"),
    (re.compile(r"(?<=PlainAccessConfig@)[0-9a-f]+"), "HASH"),
    # A topic is ordered when the broker next hears of it from the name server.
    (re.compile(r'"order":(true|false)'), '"order":FLAG'),
    (re.compile(r"(?<![\w-])-?\d+(\.\d+)?([eE]-?\d+)?(?![\w-]|\.\d)"), "N"),
    (re.compile(r"\bN ([KMGT]i)?B\b"), "BYTES"),
)


def shape(text: str) -> list[str]:
    """Return the lines of an output with what differs from run to run masked, without traces' places."""
    lines = []
    for line in text.splitlines():
        if line.startswith(("\tat ", "\t... ")):
            continue
        for pattern, name in _MASKS:
            line = pattern.sub(name, line)
        lines.append(" ".join(line.split()))
    return [line for line in lines if line]
