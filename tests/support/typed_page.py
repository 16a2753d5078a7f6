"""A page of the documentation whose commands start servers, typed in order on ports of the test's own.

The page's processes run in the background and write their ids into `*.pid`, as the page says.
"""

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import etcd
from harness.ports import free_broker_port
from howto import BIN, Block

from pyromq.testing.waiting import eventually

TYPING_TIMEOUT_S = 600


class TypedPage:
    """Someone who types what a page says, with other ports than the page's."""

    def __init__(self, folder: Path, ports: Sequence[int]) -> None:
        self.folder = folder
        self._ports = {str(port): str(free_broker_port()) for port in ports}
        self._environment = {name: value for name, value in os.environ.items() if "PYROMQ_" not in name} | {
            # The pages say how etcd is installed; a machine of tests may only have fetched it.
            "PATH": f"{BIN}:{os.environ['PATH']}:{Path(etcd.program()).parent}",
            "HOME": str(folder),
            "XDG_DATA_HOME": str(folder / "share"),
        }

    def port(self, number: int) -> int:
        """Return which port stands for one of the page's."""
        return int(self._ports[str(number)])

    def told(self, text: str) -> str:
        """Return a text of the page with the test's ports."""
        return re.sub(r"\d{4,5}", lambda found: self._ports.get(found[0], found[0]), text)

    def export(self, name: str, value: str) -> None:
        """Have a variable in all commands from now on, as in one shell."""
        self._environment[name] = self.told(value)

    def put_on_path(self, folder: Path) -> None:
        """Let commands be found in a folder too."""
        self._environment["PATH"] += f":{folder}"

    def type(self, block: Block | str) -> str:
        """Run commands, each of which must succeed, and return what they print."""
        text = self.told(block if isinstance(block, str) else block.text)
        done = subprocess.run(
            ["bash", "-euc", text],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=TYPING_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}\n{self._logs()}"
        return done.stdout

    def end(self) -> None:
        """End whatever the page started and did not end, and return when it is gone."""
        for path in self.folder.glob("*.pid"):
            with suppress(ValueError, OSError):
                pid = int(path.read_text())
                if self._is_of_the_page(pid):
                    os.kill(pid, signal.SIGKILL)
                    eventually(lambda pid=pid: not self._is_of_the_page(pid), 60, what=f"{path} has ended")

    def _is_of_the_page(self, pid: int) -> bool:
        """Whether a process runs in the page's folder: another may have got the number since."""
        try:
            # A process that has ended, and that nobody has asked how, is nowhere.
            return Path(f"/proc/{pid}/cwd").resolve(strict=True).is_relative_to(self.folder.resolve())
        except OSError:
            return False

    def _logs(self) -> str:
        return "\n".join(f"== {path.name}\n{path.read_text()[-1500:]}" for path in self.folder.glob("*.log"))


@contextmanager
def typed_page(folder: Path, ports: Sequence[int]) -> Iterator[TypedPage]:
    """Type a page's commands in a folder, and end what they started."""
    page = TypedPage(folder, ports)
    try:
        yield page
    finally:
        page.end()
