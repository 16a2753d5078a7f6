"""The property string."""

import pytest

from pyromq.wire import properties


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("", {}),
        ("KEYS\x01k1 k2\x02TAGS\x01A", {"KEYS": "k1 k2", "TAGS": "A"}),
        ("KEYS\x01k1\x02TAGS\x01A\x02", {"KEYS": "k1", "TAGS": "A"}),
        ("a\x01b\x01c", {"a": "b\x01c"}),
        ("a\x01\x02\x01b\x02c\x02\x02d\x01e", {"d": "e"}),
        ("a\x011\x02a\x012", {"a": "2"}),
        ("a\x011\x02a\x01", {"a": "1"}),
    ],
)
def test_both_styles_read_and_half_pairs_are_skipped(text: str, pairs: dict[str, str]) -> None:
    assert properties.decode(text) == pairs
    for name in ("KEYS", "TAGS", "a", "b", "c", "d"):
        expected = pairs.get(name)
        assert properties.find_text(text, name) == expected
        assert properties.finder(name.encode())(text.encode()) == (
            None if expected is None else expected.encode()
        )


@pytest.mark.row("MM-01")
def test_pairs_are_written_in_java_s_order_without_a_trailing_separator() -> None:
    pairs = {"TAGS": "TagA", "KEYS": "k1", "UNIQ_KEY": "7F", "CLUSTER": "DefaultCluster"}

    assert properties.encode(pairs) == (
        "KEYS\x01k1\x02UNIQ_KEY\x017F\x02CLUSTER\x01DefaultCluster\x02TAGS\x01TagA"
    )
    assert properties.encode({}) == ""


def test_a_name_within_another_is_not_found() -> None:
    text = "XKEYS\x01no\x02KEYSX\x01no\x02V\x01KEYS\x01no"

    assert properties.find_text(text, "KEYS") is None
    assert properties.finder(b"KEYS")(text.encode()) is None


def test_thousands_of_empty_pairs_do_not_exhaust_the_stack() -> None:
    text = "a\x011" + "\x02a\x01" * 10_000

    assert properties.find_text(text, "a") == "1"
    assert properties.finder(b"a")(text.encode()) == b"1"
