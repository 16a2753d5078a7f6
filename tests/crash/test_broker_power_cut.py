"""A power cut under a whole broker: the log and the tables come back together, and fit.

How it is done is told in tests/support/power_cuts.py; `make torture-store` does more of it, and
`make simulate` does it to whole clusters.
"""

from random import SystemRandom

import pytest
from effort import times
from power_cuts import cut_often

from pyromq.config.choices import FlushDiskType


@pytest.mark.row("ST-25", "FL-01", "FL-02", "FL-03")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("flush", FlushDiskType)
async def test_after_a_power_cut_a_broker_keeps_what_it_promised(flush: FlushDiskType) -> None:
    seed = SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")

    await cut_often(seed, flush, turns=times(20))
