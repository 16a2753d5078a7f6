"""Processes of the tests' own: started in a folder for their output, ended by their id."""

import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyromq.testing.waiting import eventually

#: Long, because it is only spent where a process does not stop.
STOP_TIMEOUT_S = 90


class Server:
    """A server process whose output goes to a file beside its data."""

    def __init__(
        self, command: Sequence[str], *, folder: Path, name: str, env: Mapping[str, str] | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._output = folder / f"{name}.out"
        with self._output.open("w") as output:
            self._process = subprocess.Popen(
                command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def output(self) -> str:
        """What the process printed so far."""
        return self._output.read_text(errors="replace")

    def wait_for_text(self, text: str, timeout_s: float) -> None:
        """Wait until the process has printed this."""
        eventually(
            lambda: self._alive() and text in self.output, timeout_s, what=f"{self._output} says {text!r}"
        )

    def wait_for_file(self, path: Path, timeout_s: float) -> None:
        """Wait until the process has written this file."""
        eventually(lambda: self._alive() and path.exists(), timeout_s, what=f"{path} exists")

    def wait(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Wait until the process ends by itself, and return its exit status."""
        return self._process.wait(timeout_s)

    def stop(self) -> int:
        """Ask the process to end, wait for it, and return its exit status."""
        self._process.terminate()
        try:
            return self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise

    def kill(self) -> None:
        """End the process at once: nobody asks how it stops."""
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Take its processor time away, from all of its threads: it neither answers nor hangs up."""
        self._process.send_signal(signal.SIGSTOP)
        eventually(self._is_still, what=f"process {self.pid} is stopped")

    def thaw(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def _is_still(self) -> bool:
        # The state is behind the name, which is in parentheses and may hold anything.
        threads = Path(f"/proc/{self.pid}/task").glob("*/stat")
        try:
            return all(path.read_text().rpartition(")")[2].split()[0] == "T" for path in threads)
        except OSError:
            # A thread ended between the two looks, so this was not the moment.
            return False

    def _alive(self) -> bool:
        status = self._process.poll()
        assert status is None, f"ended with status {status}:\n{self.output[-4000:]}"
        return True
