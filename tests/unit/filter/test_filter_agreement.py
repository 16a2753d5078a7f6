from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.filter.agreement import Disagreement, Roll, Stance, find_conflict, want

CLUSTERING = "CLUSTERING"


def stance(*expressions: str, model: str = CLUSTERING) -> Stance:
    """What somebody wants who subscribes to «topic expression» each."""
    return Stance(model, frozenset(want(*expression.split(" ", 1)) for expression in expressions))


STANCES = [
    stance("orders *"),
    stance("orders a"),
    stance("orders *", "payments *"),
    stance("orders *", model="BROADCASTING"),
]
MEMBERS = st.lists(st.sampled_from(STANCES), max_size=12).map(
    lambda stances: [(f"client-{number}", each) for number, each in enumerate(stances)]
)


def conflict(*members: tuple[str, Stance]) -> Disagreement:
    found = find_conflict(members)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("one", "other"),
    [("a||b", "b || a"), ("a||b", " a || b || a "), ("*", ""), ("*", None), ("||", " || ")],
)
def test_the_same_tags_are_the_same_want_however_they_are_written(one: str, other: str | None) -> None:
    assert want("orders", one) == want("orders", other)


@pytest.mark.parametrize(
    ("expression", "kind"), [("a||b", "TAG"), ("*", "TAG"), ("||", "TAG"), ("a > 2", "SQL92"), ("a", "SQL92")]
)
def test_other_words_are_another_want(expression: str, kind: str) -> None:
    assert want("orders", "a", "TAG") != want("orders", expression, kind)


def test_a_class_filter_is_no_tag() -> None:
    assert want("orders", "a") != want("orders", "a", is_class=True)


def test_members_that_want_the_same_have_no_conflict() -> None:
    assert find_conflict([("a", stance("orders x||y")), ("b", stance("orders y||x"))]) is None


@pytest.mark.row("MM-11")
def test_the_difference_names_who_and_what() -> None:
    others = stance("orders *")
    found = conflict(("b", others), ("c", others), ("A", stance("orders b||a")), ("d", others))
    assert str(found) == "client A: orders tags a||b; 3 others: orders *"


@pytest.mark.row("MM-10")
def test_topics_that_all_want_alike_are_not_named() -> None:
    rich, poor = stance("orders *", "payments x"), stance("orders *")
    text = str(conflict(("a", rich), ("b", rich), ("c", poor)))
    assert text == "client c: no payments; 2 others: payments tags x"


def test_another_model_is_a_difference() -> None:
    found = conflict(("a", stance("orders *")), ("b", stance("orders *", model="BROADCASTING")))
    assert str(found) == "client b: BROADCASTING; client a: CLUSTERING"


def test_sql_is_named_with_its_words() -> None:
    by_sql = Stance(CLUSTERING, frozenset({want("orders", " price > 2 ", "SQL92")}))
    assert "orders SQL92 price > 2;" in str(conflict(("a", stance("orders *")), ("b", by_sql)))


def test_many_clients_are_counted() -> None:
    odd = [(f"odd-{number}", stance("orders a")) for number in range(5)]
    most = [(f"most-{number}", stance("orders *")) for number in range(6)]
    text = str(conflict(*odd, *most))
    assert text == "clients odd-0, odd-1, odd-2 and 2 more: orders tags a; 6 others: orders *"


def test_many_topics_are_counted() -> None:
    many = stance(*(f"topic-{number} *" for number in range(8)))
    assert "topic-4 * and 3 more topics" in str(conflict(("a", many), ("b", stance()), ("c", many)))


def test_with_as_many_on_each_side_the_older_hold() -> None:
    old, new = stance("orders *"), stance("orders a")
    found = conflict(("a", old), ("b", new), ("c", new), ("d", old))
    assert found.is_tie
    assert found.holding.stance == old


def test_who_changes_its_mind_is_young_again() -> None:
    old, new = stance("orders *"), stance("orders a")
    roll: Roll[str] = Roll()
    roll.note("first", "first", old)
    roll.note("second", "second", old)
    roll.note("first", "first", new)
    assert roll.holding == old


def test_who_says_the_same_again_keeps_its_age() -> None:
    old, new = stance("orders *"), stance("orders a")
    roll: Roll[str] = Roll()
    roll.note("first", "first", old)
    roll.note("second", "second", new)
    assert not roll.note("first", "first", old)
    assert roll.holding == old


@given(members=MEMBERS, data=st.data())
def test_the_larger_side_holds_in_whatever_order_members_come(
    members: Sequence[tuple[str, Stance]], data: st.DataObject
) -> None:
    found = find_conflict(members)
    again = find_conflict(data.draw(st.permutations(members)))

    assert (found is None) == (again is None)
    if found is None or again is None:
        assert len({each for _, each in members}) < 2
        return
    sides = {side.stance: side.count for side in (found.holding, *found.others)}
    assert sides == {side.stance: side.count for side in (again.holding, *again.others)}
    assert found.holding.count == max(sides.values())
    assert found.is_tie == again.is_tie
    if not found.is_tie:
        assert found.holding.stance == again.holding.stance


CHANGES = st.lists(st.tuples(st.integers(0, 5), st.none() | st.sampled_from(STANCES)), max_size=40)


@given(changes=CHANGES)
def test_a_roll_that_members_joined_left_and_changed_is_as_one_made_of_those_who_stayed(
    changes: Sequence[tuple[int, Stance | None]],
) -> None:
    roll: Roll[int] = Roll()
    stayed: dict[int, Stance] = {}
    for key, wanted in changes:
        if wanted is None:
            assert roll.drop(key) == (stayed.pop(key, None) is not None)
        else:
            assert roll.note(key, str(key), wanted) == (stayed.get(key) != wanted)
            if stayed.get(key) != wanted:
                stayed.pop(key, None)
                stayed[key] = wanted

    made = find_conflict((str(key), wanted) for key, wanted in stayed.items())

    assert roll.conflict() == made
    assert len(roll) == len(stayed)
    assert {key: roll.stance_of(key) for key in stayed} == stayed
