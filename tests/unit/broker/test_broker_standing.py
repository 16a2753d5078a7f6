"""A master's lease: what was acknowledged on its word leaves while it is held, or not at all."""

from pyromq.broker.durability.acknowledgement import Lease
from pyromq.testing.manual_clock import ManualClock


def lease_of(clock: ManualClock) -> Lease:
    return Lease(clock.monotonic, clock.monotonic() + 3)


def test_what_was_acknowledged_leaves_while_the_lease_is_held() -> None:
    lease = lease_of(ManualClock())
    assert lease.vouch()
    assert lease.may_leave()


def test_what_was_acknowledged_does_not_leave_when_the_lease_ended_since() -> None:
    clock = ManualClock()
    lease = lease_of(clock)
    assert lease.vouch()
    clock.advance(3_000)
    assert not lease.may_leave()


def test_one_that_is_refused_does_not_let_another_leave_that_was_acknowledged() -> None:
    clock = ManualClock()
    lease = lease_of(clock)
    assert lease.vouch()
    clock.advance(3_000)
    assert not lease.vouch()
    assert not lease.may_leave()


def test_refusals_leave_without_a_lease() -> None:
    clock = ManualClock()
    lease = lease_of(clock)
    assert lease.vouch()
    assert lease.may_leave()
    clock.advance(3_000)
    assert not lease.vouch()
    assert lease.may_leave()


def test_nothing_leaves_that_was_acknowledged_before_the_lease_was_dropped() -> None:
    lease = lease_of(ManualClock())
    assert lease.vouch()
    lease.drop()
    assert not lease.may_leave()
