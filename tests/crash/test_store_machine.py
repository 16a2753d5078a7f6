"""The store against a dictionary, under everything that can happen to it; see tests/support/store_machine.py.

test_store_seeds.py does it for longer, and replays a seed.
"""

import pytest
from effort import times
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from store_machine import StoreMachine, queues

from pyromq.store.index import indexfile

BOUNDED = settings(
    max_examples=times(20), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)

SEEN = ("stops", "kills", "power cuts", "files filled", "files swept")
ROUNDS_MAX = 5


@pytest.mark.row("ST-02", "ST-06", "FL-02", "CL-01", "CL-03")
def test_the_store_is_a_dictionary_that_survives_stops_kills_and_power_cuts() -> None:
    done = StoreMachine.done
    done.clear()

    for _ in range(ROUNDS_MAX):
        run_state_machine_as_test(StoreMachine, settings=BOUNDED)
        # Steps are drawn at random: a round may be without one of those that must have been seen.
        if all(done[what] for what in SEEN):
            break

    print(dict(done))
    assert all(done[what] for what in SEEN)


def test_so_does_one_that_writes_its_keys_little_by_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots are written in parts between messages, and a crash may come between any two."""
    monkeypatch.setattr(indexfile, "HELD_SLOTS_MAX", 3)
    monkeypatch.setattr(indexfile, "HELD_ENTRIES_BYTES", 60)

    run_state_machine_as_test(StoreMachine, settings=BOUNDED)


def test_a_power_cut_while_the_queues_are_made_again_loses_no_key() -> None:
    """All topics are deleted, a start makes queues and index again, and the power fails in the middle."""
    machine = StoreMachine()
    machine.begin()
    try:
        for seed in range(40):
            machine.stop_and_start()
            for topic in sorted({topic for topic, _ in queues()}):
                machine.delete_topic(topic=topic)

            machine.cut_power(seed=seed, when="while starting")
    finally:
        machine.teardown()
