"""The page of commands for operators says what the commands say."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_page_is_as_the_commands_are() -> None:
    ended = subprocess.run(
        [sys.executable, ROOT / "tools/gen_admin.py", "--check"], capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stdout) == (0, ""), ended.stdout + ended.stderr
