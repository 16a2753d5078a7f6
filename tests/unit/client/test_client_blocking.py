"""The blocking faces that are written from the awaitable ones say what those say."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_blocking_faces_are_as_the_awaitable_ones() -> None:
    ended = subprocess.run(
        [sys.executable, ROOT / "tools/gen_blocking.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.returncode, ended.stdout) == (0, ""), ended.stdout + ended.stderr
