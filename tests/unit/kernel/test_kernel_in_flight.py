"""The compiled columns of messages in flight are those of Python, whatever happens to them."""

from random import Random
from typing import Any

import pytest
from effort import times

from pyromq.broker.pop import in_flight as python

kernel = pytest.importorskip("pyromq._kernel.storage.in_flight")


class Both:
    """The two versions, to which the same happens."""

    def __init__(self) -> None:
        self.tallies = python.Tally(), kernel.Tally()
        self.sides: tuple[Any, Any] = tuple(
            module.InFlight(tally) for module, tally in zip((python, kernel), self.tallies, strict=True)
        )
        self.endings = tuple(
            module.DeliveryEnding(side, lambda side=side: setattr(side, "noted", []))
            for module, side in zip((python, kernel), self.sides, strict=True)
        )

    def same(self, what: str, *given: object, **named: object) -> Any:
        """Return what both answer."""
        one, other = (getattr(side, what)(*given, **named) for side in self.sides)
        assert one == other, (what, given)
        return one

    def check(self, end: int) -> None:
        """See that both know the same."""
        for name in ("first", "last", "count", "noted"):
            assert getattr(self.sides[0], name) == getattr(self.sides[1], name), name
        for name in ("count", "revision", "acknowledged"):
            assert getattr(self.tallies[0], name) == getattr(self.tallies[1], name), name
        self.same("open_places")
        self.same("clients")
        for offset in range(end + 2):
            at = self.same("find", offset)
            if at >= 0:
                for name in ("popped_at_ms", "visible_at_ms", "client", "offset"):
                    self.same(name, at)

    def end(self, random: Random, offset: int, at: int, step: int) -> None:
        """End a message by a handle, right or not."""
        popped_at = random.choice((step, self.same("popped_at_ms", at) if at >= 0 else 0))
        ended = [ending(offset, popped_at) for ending in self.endings]
        assert ended[0] == ended[1]

    def change(self, random: Random, at: int, step: int) -> None:
        """Do something to the message at a place."""
        kind = random.randrange(3)
        if kind == 0:
            self.same("end", at)
        elif kind == 1:
            self.same("move", at, step, step + 20)
        else:
            self.same("renew", at, step, keeps_client=random.random() < 0.5)

    def sweep(self, random: Random, offset: int, step: int) -> None:
        """Do what is seldom done."""
        self.same("due_from", offset, step, random.choice((0, 32)))
        self.same("of_client", random.choice((-1, 0, 1)))
        self.same("renumber", {0: 1})
        if random.random() < 0.02:
            self.same("clear")
        elif random.random() < 0.1:
            self.same("end_before", offset)


@pytest.mark.parametrize("seed", range(4))
def test_both_know_the_same(seed: int) -> None:
    random, both, end = Random(seed), Both(), 0
    for step in range(times(1_500)):
        kind, offset = random.randrange(14), random.randrange(end + 1)
        at = both.same("find", offset)
        if kind < 3:
            offsets = [end := end + random.choice((1, 1, 1, 5)) for _ in range(random.randrange(1, 33))]
            both.same("add", offsets, step, step + 10, random.choice((-1, 0, 1)))
        elif kind < 8:
            both.end(random, offset, at, step)
        elif kind < 11 and at >= 0:
            both.change(random, at, step)
        else:
            both.sweep(random, offset, step)
        if step % 100 == 0:
            both.same("restore", both.same("columns"))
            both.check(end)
    both.check(end)
    assert both.tallies[0].take_acknowledged() == both.tallies[1].take_acknowledged() > 0
    assert both.tallies[1].take_acknowledged() == 0


def test_many_that_are_finished_around_one_that_is_not_cost_nothing() -> None:
    both = Both()
    for first in range(0, 20_000, 32):
        both.same("add", range(first, first + 32), first, first)
        for offset in range(first, first + 32):
            if offset != 7:
                assert [ending(offset, first) for ending in both.endings] == [True, True]
        for side in both.sides:
            side.noted = None
    both.check(0)
    assert both.sides[1].first == 7
    assert both.same("open_places") == [0]


@pytest.mark.parametrize("at", [-1, 5, 1 << 40])
def test_a_place_that_is_not_there_is_refused(at: int) -> None:
    columns = kernel.InFlight()
    columns.add(range(5), 0, 10)
    for call in (columns.end, columns.offset, columns.client, columns.popped_at_ms, columns.visible_at_ms):
        with pytest.raises(IndexError):
            call(at)


@pytest.mark.parametrize("columns", [(b"1", b"", b"", b""), (b"1" * 8, b"1" * 8, b"1" * 8, b"")])
def test_columns_of_other_lengths_are_refused(columns: tuple[bytes, ...]) -> None:
    with pytest.raises(ValueError, match="one length"):
        kernel.InFlight().restore(columns)
