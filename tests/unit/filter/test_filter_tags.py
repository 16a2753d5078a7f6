import pytest

from pyromq.filter.tags import matcher, parse_tags, tag_codes
from pyromq.wire.java_hash import java_hash


@pytest.mark.row("FI-01")
def test_bars_separate_tags_and_blanks_around_them_do_not_count() -> None:
    assert parse_tags("TagA || TagB||TagC ") == {"TagA", "TagB", "TagC"}


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_a_star_or_nothing_wants_all(expression: str | None) -> None:
    assert tag_codes(expression) is None
    assert matcher(tag_codes(expression)) is None


@pytest.mark.row("FI-01")
def test_a_message_is_wanted_by_the_hash_of_its_tag() -> None:
    wants = matcher(tag_codes("TagA || TagB"))
    assert wants is not None
    assert wants(java_hash("TagA"))
    assert not wants(java_hash("TagC"))


def test_bars_alone_want_nothing() -> None:
    wants = matcher(tag_codes("||"))
    assert wants is not None
    assert not wants(0)
