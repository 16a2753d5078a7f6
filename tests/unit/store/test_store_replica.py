"""A slave's store is the master's: the same log, cut anywhere on its way, and what follows it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replica_stage import copy_all, fill, followers, log_files, log_of, open_on

from pyromq.store.store import MessageStore
from pyromq.testing.disk import SimulatedDisk


def closed(store: MessageStore, disk: SimulatedDisk) -> SimulatedDisk:
    store.close()
    return disk


@pytest.mark.row("HA-01")
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000), cuts=st.lists(st.integers(0, 60_000), max_size=60))
def test_a_log_that_is_copied_in_any_pieces_makes_the_same_files(seed, cuts):
    theirs, ours = SimulatedDisk(), SimulatedDisk()
    master, slave = open_on(theirs), open_on(ours)
    fill(master, seed, 90)

    copy_all(slave, log_of(master), cuts)
    slave.close()
    master.close()

    assert log_files(ours.image()) == log_files(theirs.image())
    assert followers(ours.image()) == followers(theirs.image())
