"""The health of a dashboard: whether its looks at the cluster go on, however the cluster is."""

from pyromq.client.aio.asking import Asker
from pyromq.dashboard.sampler import ROUND_S_MAX, Sampler
from pyromq.net.process_health import HealthCheck
from pyromq.testing.manual_clock import ManualClock

NOBODY = "127.0.0.1:1"


async def test_rounds_that_go_on_are_well_and_others_say_why() -> None:
    clock = ManualClock()
    asker = Asker(NOBODY)
    sampler = Sampler(asker, clock=clock)
    (found,) = sampler.checks()
    assert found.needs_restart
    await asker.start()
    await sampler.start()
    assert sampler.checks() == [HealthCheck("rounds", "it has not looked at the cluster yet")]

    assert await sampler.wait_for_round(1, timeout_s=60)
    # The cluster is not there, and that is what it shows.
    assert NOBODY in sampler.picture.troubles["cluster"]
    assert sampler.checks() == [HealthCheck("rounds")]

    clock.advance(round(ROUND_S_MAX + 1) * 1_000)
    assert sampler.checks() == [HealthCheck("rounds", "its last look at the cluster ended 181 s ago")]

    await sampler.close()
    assert sampler.checks() == [
        HealthCheck("rounds", "it does not look at the cluster any more", needs_restart=True)
    ]
    await asker.close()
