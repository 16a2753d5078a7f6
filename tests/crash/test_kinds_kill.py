"""`kill -9` of a real broker in the middle of deliveries, ends of transactions, questions and send-backs.

How it is done is told in tests/support/kinds_kill.py. At every moment of a disk's life it is done in
test_kinds_every_moment.py.
"""

from pathlib import Path
from random import SystemRandom

import pytest
from kinds_kill import DEAD, RETRY, KindsKill


@pytest.mark.row("DE-08", "DE-12", "TX-04", "TX-11", "RT-06", "RT-12")
@pytest.mark.timeout(300)
async def test_killed_at_random_moments_a_broker_loses_nothing_and_delivers_nothing_twice(
    tmp_path: Path,
) -> None:
    seed = SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    run = KindsKill(tmp_path / "run", seed)
    try:
        await run.kill_often(8)
        await run.check()
    finally:
        run.close()

    assert all(run.acknowledged[topic] for topic in ("later", "paid", RETRY, DEAD))
    assert run.starts_that_found, "no kill fell between a delivery and its saving"
