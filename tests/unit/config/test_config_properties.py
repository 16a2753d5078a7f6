import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.config.properties_file import Line, read_properties, write_properties


def keys_and_values(text: str) -> list[tuple[str, str]]:
    return [(line.key, line.value) for line in read_properties(text)]


@pytest.mark.parametrize(
    "text",
    [
        "listenPort=10911",
        "listenPort = 10911",
        "listenPort:10911",
        "listenPort 10911",
        "  listenPort=10911  ",
    ],
)
def test_equals_colon_and_blank_separate_a_key_from_its_value(text: str) -> None:
    assert keys_and_values(text) == [("listenPort", "10911")]


def test_comments_and_empty_lines_are_skipped_and_lines_are_counted_with_them() -> None:
    text = "# first\n\n! second\n   # third\nbrokerId=0\r\n"

    assert read_properties(text) == [Line(5, "brokerId", "0")]


def test_a_backslash_at_the_end_goes_on_without_the_next_lines_indent() -> None:
    text = "namesrvAddr=a:9876;\\\n    b:9876\nbrokerId=0"

    assert read_properties(text) == [Line(1, "namesrvAddr", "a:9876;b:9876"), Line(3, "brokerId", "0")]


def test_two_backslashes_at_the_end_are_one_backslash_and_the_line_ends() -> None:
    assert keys_and_values("path=C\\:\\\\\nnext=1") == [("path", "C:\\"), ("next", "1")]


def test_a_continuation_after_the_last_line_ends_the_value() -> None:
    assert keys_and_values("a=b\\") == [("a", "b")]


def test_escapes_are_read_as_java_reads_them() -> None:
    assert keys_and_values("k\\ e\\=y=\\u00e9\\t\\q") == [("k e=y", "é\tq")]


def test_a_key_without_value_has_an_empty_one() -> None:
    assert keys_and_values("brokerIP1=\nflag") == [("brokerIP1", ""), ("flag", "")]


@pytest.mark.parametrize("text", ["a=1\nb=\\u12", "a=1\nb=\\uXYZW"])
def test_a_broken_unicode_escape_is_named_with_its_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"^2: .*four hex digits"):
        read_properties(text)


def test_a_hash_behind_a_value_is_part_of_it() -> None:
    assert keys_and_values("brokerId=0 # master") == [("brokerId", "0 # master")]


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_what_is_written_reads_back(values: dict[str, str]) -> None:
    # Surrogates leave as two escapes and come back as two characters; white space at the end is not kept.
    wanted = [(key, value.rstrip()) for key, value in values.items()]

    found = [(_whole(line.key), _whole(line.value)) for line in read_properties(write_properties(values))]

    assert found == wanted


@given(st.text())
def test_any_text_gives_lines_or_a_value_error(text: str) -> None:
    try:
        lines = read_properties(text)
    except ValueError:
        return
    assert all(0 < line.number <= len(text.splitlines()) for line in lines)


def _whole(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16")
