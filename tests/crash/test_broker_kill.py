"""`kill -9` of a real broker under load: nothing that it acknowledged is lost, whichever flush.

The page cache outlives the process, so asynchronous flush may lose nothing either. How it is done is told in
tests/support/kill_run.py; `pyromq torture` does it for as long as one likes, with every kind of message.
"""

from pathlib import Path
from random import SystemRandom

import pytest
from effort import times
from kill_run import ALL_DAY, KillRun

from pyromq.config.choices import FlushDiskType

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def seed() -> int:
    seed = SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    return seed


@pytest.mark.row("ST-02", "FL-01", "FL-02")
def test_under_synchronous_flush_nothing_acknowledged_is_lost_in_many_kills(
    tmp_path: Path, seed: int
) -> None:
    run = KillRun(tmp_path / "run", seed=seed, flush=FlushDiskType.SYNC_FLUSH)

    run.kill_often(times(10), until=lambda: run.ledger.acknowledged_count > times(10))

    assert run.kills >= times(10)


@pytest.mark.row("FL-01", "FL-03")
def test_under_asynchronous_flush_a_kill_loses_nothing_either(tmp_path: Path, seed: int) -> None:
    run = KillRun(tmp_path / "run", seed=seed, flush=FlushDiskType.ASYNC_FLUSH, command="up")

    run.kill_often(
        times(8), until=lambda: run.ledger.acknowledged_count > times(8) and bool(run.ledger.key_values)
    )

    assert run.kills >= times(8)


@pytest.mark.row("CL-01", "CL-03")
def test_a_kill_while_old_files_go_loses_no_younger_message(tmp_path: Path, seed: int) -> None:
    run = KillRun(tmp_path / "run", seed=seed, flush=FlushDiskType.ASYNC_FLUSH, settings=ALL_DAY)

    run.kill_often(times(5), full_every=2, until=lambda: max(run.ledger.low.values(), default=0) > 0)

    assert run.kills >= times(5)
