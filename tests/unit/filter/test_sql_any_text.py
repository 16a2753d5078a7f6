"""Any text is compiled or refused, and any expression means what a plain reading of the rules says."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import FilterError
from pyromq.filter.sql_filter import compile_sql, prepare

pytestmark = pytest.mark.row("FI-02")
# The first expression waits for the grammar, which no deadline of a single one has room for.
prepare()

WORDS = [
    *("a", "b", "AND", "OR", "NOT", "IN", "IS", "NULL", "BETWEEN", "TRUE", "FALSE", "CONTAINS", "ENDSWITH"),
    *("=", "<>", "<", "<=", ">", ">=", "(", ")", ",", "+", "-", "'x'", "''", "'", "1", "0.5", "2147483648"),
    *("1e5", "--", "/*", "*/", ".", "1L", "\n"),
]
VALUES = st.sampled_from(["", "x", "1", "-1", "1.5", "NaN", "true", "2147483648", "x'y", "0x1p3", " 2 "])
MESSAGES = st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES)


def place_of_error(text: str) -> int | None:
    try:
        compile_sql(text)
    except FilterError as error:
        return error.position
    return None


@given(st.one_of(st.text(), st.lists(st.sampled_from(WORDS)).map(" ".join)), MESSAGES)
def test_any_text_is_compiled_or_refused_at_a_place_within_it(text: str, message: dict[str, str]) -> None:
    place = place_of_error(text)
    if place is None:
        assert compile_sql(text).matches(message) in (True, False)
    else:
        assert 0 <= place <= len(text)


@dataclass(frozen=True)
class Part:
    """An expression as text, and a plain evaluation of it that returns None for null."""

    text: str
    operator: str
    parts: "tuple[Part | str | int, ...]"

    def value(self, message: dict[str, str]) -> bool | None:
        return getattr(self, f"_{self.operator}")(message)  # type: ignore[no-any-return]

    def _number_of(self, message: dict[str, str], name: object) -> int | None:
        text = message.get(str(name))
        return None if text is None else int(text)

    def _less(self, message: dict[str, str]) -> bool | None:
        number = self._number_of(message, self.parts[0])
        return None if number is None else number < int(str(self.parts[1]))

    def _equal(self, message: dict[str, str]) -> bool | None:
        number = self._number_of(message, self.parts[0])
        return None if number is None else number == int(str(self.parts[1]))

    def _between(self, message: dict[str, str]) -> bool | None:
        number = self._number_of(message, self.parts[0])
        return None if number is None else int(str(self.parts[1])) <= number <= int(str(self.parts[2]))

    def _member(self, message: dict[str, str]) -> bool | None:
        text = message.get(str(self.parts[0]))
        return None if text is None else text in map(str, self.parts[1:])

    def _missing(self, message: dict[str, str]) -> bool:
        return str(self.parts[0]) not in message

    def _inner(self, message: dict[str, str]) -> list[bool | None]:
        return [part.value(message) for part in self.parts if isinstance(part, Part)]

    def _negation(self, message: dict[str, str]) -> bool | None:
        (inner,) = self._inner(message)
        return None if inner is None else not inner

    def _every(self, message: dict[str, str]) -> bool | None:
        values = self._inner(message)
        return False if False in values else None if None in values else True

    def _some(self, message: dict[str, str]) -> bool | None:
        values = self._inner(message)
        return True if True in values else None if None in values else False


NAMES = st.sampled_from(["a", "b", "c"])
NUMBERS = st.integers(0, 4)
LEAVES = st.one_of(
    st.builds(lambda name, number: Part(f"{name} < {number}", "less", (name, number)), NAMES, NUMBERS),
    st.builds(lambda name, number: Part(f"{name} = {number}", "equal", (name, number)), NAMES, NUMBERS),
    st.builds(
        lambda name, low, more: Part(
            f"{name} BETWEEN {low} AND {low + more}", "between", (name, low, low + more)
        ),
        NAMES,
        NUMBERS,
        NUMBERS,
    ),
    st.builds(
        lambda name, numbers: Part(
            f"{name} IN ({', '.join([repr(str(n)) for n in numbers])})", "member", (name, *numbers)
        ),
        NAMES,
        st.lists(NUMBERS, min_size=1),
    ),
    st.builds(lambda name: Part(f"{name} IS NULL", "missing", (name,)), NAMES),
)


def joined(word: str, operator: str, parts: list[Part]) -> Part:
    return Part(f" {word} ".join(f"({part.text})" for part in parts), operator, tuple(parts))


EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda part: Part(f"NOT ({part.text})", "negation", (part,)), inner),
        st.builds(lambda parts: joined("AND", "every", parts), st.lists(inner, min_size=2, max_size=4)),
        st.builds(lambda parts: joined("or", "some", parts), st.lists(inner, min_size=2, max_size=4)),
    ),
    max_leaves=12,
)


@given(EXPRESSIONS, st.dictionaries(NAMES, st.integers(0, 5).map(str)))
def test_an_expression_means_what_its_parts_mean(expression: Part, message: dict[str, str]) -> None:
    expected = expression.value(message)
    assert compile_sql(expression.text).matches(message) is (expected is True)
    assert compile_sql(f"NOT ({expression.text})").matches(message) is (expected is False)


@given(st.text(), MESSAGES)
def test_no_property_stops_a_filter(text: str, message: dict[str, str]) -> None:
    for expression in ("a > 1", "a = 1.5", "a < b", "a = TRUE OR 5 > a", "a BETWEEN 1 AND 2.5"):
        assert compile_sql(expression).matches({**message, "a": text}) in (True, False)
