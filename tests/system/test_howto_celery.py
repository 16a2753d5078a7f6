"""docs/howto/celery.md: its tasks, its worker and its sender, as they stand there."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from page_blocks import page_blocks

from pyromq.testing.waiting import eventually

PAGE = Path(__file__).parents[2] / "docs/howto/celery.md"


def test_the_tasks_of_the_page_are_done_by_its_worker(shared_address: str, tmp_path: Path) -> None:
    shown = {block.when: block.text for block in page_blocks(PAGE) if block.when}
    (tmp_path / "tasks.py").write_text(shown["tasks"])
    environment = os.environ | {"NAMESRV_ADDR": shared_address}
    log = tmp_path / "log"
    program, *arguments = shlex.split(shown["worker"])
    with log.open("wb") as out:
        worker = subprocess.Popen(
            [sys.executable, "-m", program, *arguments],
            cwd=tmp_path,
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        subprocess.run(
            [sys.executable, "-c", shown["send"]], cwd=tmp_path, env=environment, check=True, timeout=60
        )
        eventually(lambda: "order 8 is billed" in log.read_text(), 60, what="the task that waits is done")
    finally:
        worker.terminate()
        worker.wait(60)

    assert log.read_text().index("order 7 is billed") < log.read_text().index("order 8 is billed")
    assert worker.returncode == 0
