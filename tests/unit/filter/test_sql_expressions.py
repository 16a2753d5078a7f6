"""What expressions mean: RocketMQ's grammar, its logic of three values, strings that are numbers."""

import pytest

from pyromq.errors import FilterError
from pyromq.filter.sql_filter import compile_sql

pytestmark = pytest.mark.row("FI-02")

#: A truth value for each of the three: the property `t` is there, `missing` is not.
TRUE, FALSE, NULL = "(t = 'x')", "(t = 'y')", "(missing = 'x')"
MESSAGE = {
    "t": "x",
    "n": "7",
    "d": "7.5",
    "big": "3000000000",
    "word": "seven",
    "flag": "True",
    "minus": "-7",
}


def value(expression: str) -> bool | None:
    """Return which of the three values an expression has for MESSAGE."""
    if compile_sql(expression).matches(MESSAGE):
        return True
    return False if compile_sql(f"NOT ({expression})").matches(MESSAGE) else None


def error(expression: str) -> tuple[int, str]:
    with pytest.raises(FilterError) as caught:
        compile_sql(expression)
    return caught.value.position, caught.value.cause


@pytest.mark.parametrize(
    ("left", "right", "both", "either"),
    [
        (TRUE, TRUE, True, True),
        (TRUE, FALSE, False, True),
        (TRUE, NULL, None, True),
        (FALSE, FALSE, False, False),
        (FALSE, NULL, False, None),
        (NULL, NULL, None, None),
    ],
)
def test_null_is_neither_true_nor_false(
    left: str, right: str, both: bool | None, either: bool | None
) -> None:
    assert (value(f"{left} AND {right}"), value(f"{right} AND {left}")) == (both, both)
    assert (value(f"{left} OR {right}"), value(f"{right} OR {left}")) == (either, either)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("n = 7", True),
        ("n <> 7", False),
        ("n > 6 AND n >= 7 AND n < 8 AND n <= 7", True),
        ("7 = n", True),
        ("8 > n", True),
        ("n = 7.0", True),
        ("n = 7L", True),
        ("n < .8e1", True),
        ("d > 7.0", True),
        ("d = 7.5", True),
        ("minus = -7", True),
        ("minus < +1", True),
        ("n = - -7", True),
        ("n > minus", True),
        ("d > n", True),
        ("n BETWEEN 7 AND 8", True),
        ("n BETWEEN 1 AND 6", False),
        ("n NOT BETWEEN 1 AND 6", True),
        ("n not between 7 and 8", False),
        ("n BETWEEN minus AND d", True),
        ("missing BETWEEN 1 AND 2", None),
        ("word = 'seven'", True),
        ("word <> 'seven'", False),
        ("'seven' = word", True),
        ("word = t", False),
        ("t IN ('y', 'x')", True),
        ("t NOT IN ('y', 'x')", False),
        ("t IN ('y')", False),
        ("missing IN ('x')", None),
        ("missing NOT IN ('x')", None),
        ("missing IS NULL", True),
        ("missing IS NOT NULL", False),
        ("t IS NULL", False),
        ("t Is Not nUll", True),
        ("flag = TRUE", True),
        ("word = true", False),
        ("TRUE", True),
        ("FALSE", False),
        ("NULL", None),
        ("1 = 1.0", True),
        ("1 <> 2", True),
        ("1 = TRUE", False),
        ("'7' = 7", True),
        ("word CONTAINS 'eve'", True),
        ("word NOT CONTAINS 'eve'", False),
        ("word STARTSWITH 'sev'", True),
        ("word NOT STARTSWITH 'sev'", False),
        ("word endswith 'en'", True),
        ("word NOT ENDSWITH 'sev'", True),
        ("missing CONTAINS 'x'", False),
        ("missing NOT CONTAINS 'x'", False),
        ("word CONTAINS ''", False),
    ],
)
def test_a_comparison_has_one_of_three_values(expression: str, expected: bool | None) -> None:
    assert value(expression) is expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("missing = alsoMissing", True),
        ("missing = t", None),
        ("t = missing", False),
        ("t <> missing", True),
        ("t", False),
        ("missing", None),
        ("-n IS NULL", True),
        ("NOT t = 'x'", None),
    ],
    ids=str,
)
def test_where_rocketmq_differs_from_sql_it_is_followed(expression: str, expected: bool | None) -> None:
    assert value(expression) is expected


@pytest.mark.parametrize(
    "expression",
    ["d > 7", "big > 1", "word > 1", "word = 7", "word <> 7", "word > t", "TRUE = flag", "d = 7 OR t = 'x'"],
)
def test_a_string_that_is_no_number_of_the_kind_compared_with_makes_no_match(expression: str) -> None:
    assert value(expression) is None


@pytest.mark.parametrize("expression", ["d > 7.0", "big > 1.0", "big > 2999999999", "t = 'x' OR d = 7"])
def test_a_number_of_the_right_kind_or_an_earlier_part_matches(expression: str) -> None:
    assert value(expression) is True


@pytest.mark.parametrize(
    ("text", "expected"),
    [(" 1.5 ", True), ("1.5f", True), ("15e-1D", True), ("0x1.8p0", True), ("1,5", False), ("1_5", False)],
)
def test_doubles_are_read_as_java_reads_them(text: str, expected: bool) -> None:
    assert compile_sql("a = 1.5").matches({"a": text}) is expected


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("NaN", "a > 1e300"),
        ("Infinity", "a > 1e300"),
        ("-Infinity", "a < 0.5"),
        ("0x1p9999", "a > 1e300"),
        ("-0x1p9999", "a < 0.5"),
        ("-0.0", "a < 0.0"),
        ("-0.0", "a <> 0.0"),
    ],
)
def test_doubles_are_in_javas_order(text: str, expression: str) -> None:
    assert compile_sql(expression).matches({"a": text})


@pytest.mark.parametrize("text", ["+7", "07", "7"])
def test_integers_may_have_a_sign_and_zeros(text: str) -> None:
    assert compile_sql("a = 7").matches({"a": text})


@pytest.mark.parametrize("text", [" 7", "7 ", "7.0", "", "2147483648", "-2147483649", "9" * 5000])
def test_what_is_no_32_bit_integer_does_not_match_one(text: str) -> None:
    assert not compile_sql("a = 7 OR a <> 7").matches({"a": text})


def test_two_quotes_in_a_string_are_one() -> None:
    assert compile_sql("a = 'it''s'").matches({"a": "it's"})


def test_comments_and_white_space_mean_nothing() -> None:
    assert compile_sql("/* why */ n\t= -- so\n 7 -- end").matches({"n": "7"})


def test_names_are_letters_digits_underscores_and_dollars_and_their_case_matters() -> None:
    assert compile_sql("_a$1 = 'x' AND orderId = 'x' AND notify = 'x'").matches(
        {"_a$1": "x", "orderId": "x", "notify": "x"}
    )
    assert not compile_sql("A = 'x'").matches({"a": "x"})


def test_the_words_of_5_may_be_names_as_in_4() -> None:
    assert compile_sql("contains CONTAINS 'x'").matches({"contains": "axe"})


def test_and_binds_closer_than_or() -> None:
    assert compile_sql("t = 'x' OR t = 'y' AND t = 'z'").matches(MESSAGE)
    assert not compile_sql("(t = 'x' OR t = 'y') AND t = 'z'").matches(MESSAGE)


# Refusals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "position", "cause"),
    [
        ("", 0, "the expression ends where a property or a value is expected"),
        ("a >", 3, "the expression ends where a property or a value is expected"),
        ("(a = 1", 6, "the expression ends"),
        ("a = 1)", 5, "')' stands where"),
        ("a LIKE 'x%'", 2, "'LIKE' stands where an operator"),
        ("a > 1 b", 6, "'b' stands where an operator"),
        ("a && b", 2, "'&' means nothing here"),
        ("a = 'x", 4, "the string that begins here has no end"),
        ("a = 1 /* x", 6, "'/' means nothing"),
        ("a IN (1)", 6, "'1' stands where a string in single quotes is expected"),
        ("a IN ()", 6, "')' stands where a string"),
        ("1 IN ('x')", 0, "only a property can be IN a list"),
        ("in = 'x'", 0, "'in' stands where a property"),
        ("a = 007", 5, "'0' stands where an operator"),
        ("a > 'x'", 4, "only numbers and properties"),
        ("TRUE < a", 0, "only numbers and properties"),
        ("NOT a > 1", 0, "no truth value can be compared by >; use parentheses"),
        ("a = NULL", 4, "NULL cannot be compared; use IS NULL"),
        ("TRUE = 1", 7, "cannot be compared with this"),
        ("1", 0, "this is neither true nor false"),
        ("a AND 'x'", 6, "this is neither true nor false"),
        ("a BETWEEN 5 AND 1", 10, "the first limit of BETWEEN must not be above the second"),
        ("a BETWEEN 1 AND NULL", 16, "the limits of BETWEEN cannot be NULL"),
        ("a BETWEEN 'x' AND 1", 10, "the limits of BETWEEN cannot be compared"),
        ("a = 9223372036854775808", 4, "is more than 9223372036854775807"),
        ("a = 1e999", 4, "is more than a double can be"),
        ("a = 1 OR\n b ! 2", 12, "'!' means nothing"),
    ],
)
def test_an_error_has_its_place_and_its_cause(expression: str, position: int, cause: str) -> None:
    at, says = error(expression)
    assert at == position
    assert cause in says


def test_the_place_is_counted_from_one_for_people() -> None:
    with pytest.raises(FilterError, match="At character 3: "):
        compile_sql("a ? 1")


@pytest.mark.parametrize("level", ["NOT ", "- ", "NOT ("])
def test_what_is_nested_too_deep_is_refused(level: str) -> None:
    expression = level * 200 + "a" + ")" * (200 if "(" in level else 0)
    assert "levels within each other" in error(expression)[1]


def test_many_parts_side_by_side_are_not_deep() -> None:
    expression = " OR ".join(f"a = {number}" for number in range(1000))
    assert compile_sql(expression).matches({"a": "999"})


def test_a_text_of_megabytes_is_refused_before_it_is_read() -> None:
    assert "characters" in error("a" * 5_000_000)[1]
