"""Commands of a page of the documentation, for a test that runs them as they stand there.

Before each block of commands a comment says when it is run: `<!-- run: short -->`.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from pyromq.testing.waiting import eventually

_BLOCK = re.compile(r"(?:<!-- run: ([^>]*?) -->\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LANGUAGES = ("sh", "python")
BIN = Path(sys.executable).parent


@dataclass(frozen=True, slots=True)
class Block:
    """A block of commands: when it is run, in which language, and its text."""

    when: str
    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    """Return the blocks of commands of a page, in order; each has to say when it is run."""
    found = [
        Block(when, language, text)
        for when, language, text in _BLOCK.findall(page.read_text())
        if language in LANGUAGES
    ]
    unmarked = [block.text for block in found if not block.when]
    assert not unmarked, f"these do not say when they are run: {unmarked}"
    return found


def read_page(page: Path, folder: Path, when: Set[str]) -> list[str]:
    """Run those blocks of a page, in order, in a folder beside a broker; return what each prints."""
    reader = Reader(folder)
    try:
        return [reader.type(block) for block in blocks(page) if block.when in when]
    finally:
        reader.close()


class Reader:
    """Someone who types what the page says."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        ready = folder / "ready.json"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYROMQ_")}
        self._environment = kept | {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "HOME": str(folder),
            "XDG_DATA_HOME": str(folder / "share"),
        }
        ports = ("--namesrv-port", "0", "--broker-port", "0", "--ready-file", str(ready))
        self._up = subprocess.Popen(
            [BIN / "pyromq", "up", *ports], env=self._environment, cwd=folder, stdout=subprocess.DEVNULL
        )
        try:
            eventually(ready.exists, 60, what="ready")
        except AssertionError:
            self.close()
            raise
        self._environment["NAMESRV_ADDR"] = json.loads(ready.read_text())["namesrv"]

    @property
    def name_server(self) -> str:
        """The address of the name server that the commands find by themselves."""
        return self._environment["NAMESRV_ADDR"]

    def type(self, block: Block) -> str:
        """Run a block of commands, each of which must succeed, and return what they print."""
        command = ["bash", "-euc", block.text] if block.language == "sh" else ["python", "-c", block.text]
        done = subprocess.run(
            command,
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, block.text + done.stdout + done.stderr
        return done.stdout

    def close(self) -> None:
        self._up.terminate()
        self._up.wait(60)
