import pytest

from pyromq.filter.tags import parse_tags, wants_all


@pytest.mark.row("FI-01")
def test_bars_separate_tags_and_blanks_around_them_do_not_count() -> None:
    assert parse_tags("TagA || TagB||TagC ") == {"TagA", "TagB", "TagC"}
    assert not wants_all("TagA || TagB")


@pytest.mark.row("FI-01")
@pytest.mark.parametrize("expression", [None, "", "*"])
def test_a_star_or_nothing_wants_all(expression: str | None) -> None:
    assert wants_all(expression)
    assert parse_tags(expression) == frozenset()


def test_bars_alone_name_no_tag_and_want_nothing() -> None:
    assert not wants_all("||")
    assert parse_tags("||") == frozenset()
