"""The page of errors says what the tree of errors says."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_as_the_tree_is() -> None:
    ended = subprocess.run(
        [sys.executable, ROOT / "tools/gen_errors.py", "--check"], capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stdout) == (0, ""), ended.stdout + ended.stderr
