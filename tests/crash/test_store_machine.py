"""The store against a dictionary, under everything that can happen to it; see tests/support/store_machine.py.

`tools/torture_store.py --only model` does it for longer, and replays a seed.
"""

import pytest
from effort import times
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from store_machine import StoreMachine

BOUNDED = settings(
    max_examples=times(20), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.row("ST-02", "ST-06", "FL-02", "CL-01", "CL-03")
def test_the_store_is_a_dictionary_that_survives_stops_kills_and_power_cuts() -> None:
    StoreMachine.done.clear()

    run_state_machine_as_test(StoreMachine, settings=BOUNDED)

    done = StoreMachine.done
    print(dict(done))
    assert all(done[what] for what in ("stops", "kills", "power cuts", "files filled", "files swept"))
