"""The clients need nothing that only POSIX has."""

import subprocess
import sys
from pathlib import Path

from pyromq.testing.cluster import running_cluster

PROGRAM = Path(__file__).parents[1] / "support" / "without_posix.py"


def test_the_clients_work_where_only_what_windows_has_too_is_there() -> None:
    with running_cluster() as cluster:
        ended = subprocess.run(
            [sys.executable, PROGRAM, cluster.namesrv_address],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
