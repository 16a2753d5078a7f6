"""Tests of the couriers with a broker that the fixtures start. `pytest examples/testing` runs them."""

from collections.abc import Iterator

import pytest
from couriers import Couriers

from pyromq.testing import BrokerOfTest, ClockOfTest


class Door:
    """Somebody's door, which is opened at the tries that are given."""

    def __init__(self, opens_at: int) -> None:
        self.opens_at = opens_at
        self.rings = 0

    def __call__(self, _parcel: bytes) -> bool:
        """Ring, and say whether it was opened."""
        self.rings += 1
        return self.rings >= self.opens_at


@pytest.fixture
def door(request: pytest.FixtureRequest) -> Door:
    """A door that opens at the first ring, or at the one that a test says."""
    return Door(getattr(request, "param", 1))


@pytest.fixture
def couriers(pyromq_broker: BrokerOfTest, door: Door) -> Iterator[Couriers]:
    """The service under test, with topics and a group of this test's own."""
    with Couriers(
        pyromq_broker.name_server,
        pyromq_broker.group("couriers"),
        parcels=pyromq_broker.topic("parcels"),
        reminders=pyromq_broker.topic("reminders"),
        deliver=door,
    ) as couriers:
        yield couriers


@pytest.mark.usefixtures("couriers")
def test_a_parcel_is_delivered(pyromq_broker: BrokerOfTest, door: Door) -> None:
    """One ring is enough."""
    pyromq_broker.send("parcels", "a book")

    pyromq_broker.wait_for(lambda: door.rings == 1)


@pytest.mark.usefixtures("couriers")
@pytest.mark.parametrize("door", [3], indirect=True)
def test_a_courier_comes_again(pyromq_broker: BrokerOfTest, pyromq_clock: ClockOfTest, door: Door) -> None:
    """The second try is 10 seconds after the first, the third 30 seconds after the second."""
    pyromq_broker.send("parcels", "a book")

    pyromq_clock.run_until(lambda: door.rings == 3, step="10s")

    assert pyromq_broker.dead_letters("couriers") == []


@pytest.mark.usefixtures("couriers")
@pytest.mark.parametrize("door", [100], indirect=True)
def test_a_parcel_that_nobody_takes_is_given_up(
    pyromq_broker: BrokerOfTest, pyromq_clock: ClockOfTest, door: Door
) -> None:
    """After sixteen more tries, which take more than four hours of the broker's time."""
    pyromq_broker.send("parcels", "a book")

    (dead,) = pyromq_clock.run_until(lambda: pyromq_broker.dead_letters("couriers"))

    assert dead.message.body == b"a book"
    assert door.rings == 17


@pytest.mark.usefixtures("couriers")
@pytest.mark.parametrize("door", [2], indirect=True)
def test_who_was_not_at_home_is_reminded_a_day_later(
    pyromq_broker: BrokerOfTest, pyromq_clock: ClockOfTest, door: Door
) -> None:
    """The reminder waits on the broker."""
    pyromq_broker.send("parcels", "a book")
    pyromq_broker.wait_for(lambda: door.rings == 1)
    assert pyromq_broker.messages("reminders") == []

    (reminder,) = pyromq_clock.run_until(lambda: pyromq_broker.messages("reminders"), step="1d")

    assert reminder.body == b"a book"
