"""The parts of a SQL expression: what they may be made of, and the closures that evaluate them.

An expression is evaluated to true, false or null; null is neither true nor its opposite. The rules, which
are not all those of SQL, are RocketMQ's:

    missing = missing     true          missing = 'x'         null
    'x' = missing         false         missing > 1           null
    property              false if it is there, else null: it is a string and no truth value
    -property             null, for the same reason
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyromq.errors import FilterError
from pyromq.filter.java_values import (
    INT_MAX,
    LONG_MAX,
    Long,
    NoResult,
    Value,
    compare,
    compare_doubles,
    read_double,
    read_int,
    read_long,
)

Properties = Mapping[str, str]
Evaluate = Callable[[Properties], Value]

#: Parentheses, NOT, signs and chains of comparisons within each other; each level is a call in a call.
DEPTH_MAX: Final = 100

_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class SqlNode:
    """A part of an expression, and where in the text it begins."""

    at: int
    evaluate: Evaluate
    depth: int = 0
    is_boolean: bool = False


@dataclass(frozen=True, slots=True)
class Constant(SqlNode):
    """A number, a string, a truth value or NULL."""

    value: Value = None


@dataclass(frozen=True, slots=True)
class Property(SqlNode):
    """A message's property, which a message may not have."""

    name: str = ""


def constant(at: int, *, value: Value) -> Constant:
    """Return a literal."""
    return Constant(
        at, lambda _properties: value, is_boolean=value is None or isinstance(value, bool), value=value
    )


def whole_number(at: int, text: str) -> Constant:
    """Return a literal without a point: of 32 bits if it fits, of 64 bits otherwise."""
    digits = text.rstrip("lL")
    if len(digits) > len(str(LONG_MAX)) or (number := int(digits)) > LONG_MAX:
        raise FilterError(f"{text} is more than {LONG_MAX}", at)
    return constant(at, value=number if number <= INT_MAX else Long(number))


def decimal_number(at: int, text: str) -> Constant:
    """Return a literal with a point or an exponent."""
    number = float(text)
    if number == float("inf"):
        raise FilterError(f"{text} is more than a double can be", at)
    return constant(at, value=number)


def text_literal(at: int, text: str) -> Constant:
    """Return what stands between single quotes, of which two mean one."""
    return constant(at, value=text[1:-1].replace("''", "'"))


def named(at: int, name: str) -> Property:
    """Return a property."""
    return Property(at, lambda properties: properties.get(name), name=name)


def any_of(parts: Sequence[SqlNode]) -> SqlNode:
    """Return whether one of them is true; null when none is and one is null."""
    tests = [truth(part).evaluate for part in parts]

    def evaluate(properties: Properties) -> Value:
        result: Value = False
        for test in tests:
            value = test(properties)
            if value:
                return True
            if value is None:
                result = None
        return result

    return _boolean(parts[0].at, evaluate, *parts)


def all_of(parts: Sequence[SqlNode]) -> SqlNode:
    """Return whether all of them are true; null when none is false and one is null."""
    tests = [truth(part).evaluate for part in parts]

    def evaluate(properties: Properties) -> Value:
        result: Value = True
        for test in tests:
            value = test(properties)
            if value is None:
                result = None
            elif not value:
                return False
        return result

    return _boolean(parts[0].at, evaluate, *parts)


def truth(part: SqlNode) -> SqlNode:
    """Return a part as a truth value; one that can never be is refused."""
    if part.is_boolean:
        return part
    if not isinstance(part, Property):
        raise FilterError("this is neither true nor false; compare it with something", part.at)
    name = part.name
    return _boolean(part.at, lambda properties: False if name in properties else None, part)


def negated(at: int, part: SqlNode) -> SqlNode:
    """Return NOT of a part."""
    test = truth(part).evaluate

    def evaluate(properties: Properties) -> Value:
        value = test(properties)
        return None if value is None else not value

    return _boolean(at, evaluate, part)


def minus(at: int, part: SqlNode) -> SqlNode:
    """Return a number with its other sign; null for what is no number."""
    inner = part.evaluate

    def evaluate(properties: Properties) -> Value:
        value = inner(properties)
        if isinstance(value, Long):
            return Long(-value)
        return -value if _is_number(value) else None  # type: ignore[operator]

    return _checked(SqlNode(at, evaluate, part.depth + 1))


def equal(left: SqlNode, right: SqlNode) -> SqlNode:
    """Return whether two parts are equal."""
    for part in (left, right):
        if isinstance(part, Constant) and part.value is None:
            raise FilterError("NULL cannot be compared; use IS NULL", part.at)
    if isinstance(left, Constant) and isinstance(right, Constant) and left.is_boolean > right.is_boolean:
        raise FilterError(f"{left.value!s} cannot be compared with this", right.at)
    return _boolean(left.at, _equality(left, right), left, right)


def is_null(part: SqlNode) -> SqlNode:
    """Return whether a part is null; this is never null itself."""
    inner = part.evaluate
    return _boolean(part.at, lambda properties: inner(properties) is None, part)


def ordered(left: SqlNode, sign: str, right: SqlNode) -> SqlNode:
    """Return whether two parts are in an order, `<` and its kin."""
    for part in (left, right):
        if part.is_boolean and not isinstance(part, Constant):
            raise FilterError(f"no truth value can be compared by {sign}; use parentheses", part.at)
        if isinstance(part, Constant) and not _is_number(part.value):
            raise FilterError(f"only numbers and properties can be compared by {sign}", part.at)
    return _boolean(left.at, _ordering(left, _ORDER[sign], right), left, right)


def between(value: SqlNode, low: SqlNode, high: SqlNode) -> SqlNode:
    """Return whether a value is within limits, both of which belong to it."""
    if isinstance(low, Constant) and isinstance(high, Constant):
        for limit in (low, high):
            if limit.value is None:
                raise FilterError("the limits of BETWEEN cannot be NULL", limit.at)
        try:
            order = compare(high.value, low.value)
        except NoResult as error:
            raise FilterError(f"the limits of BETWEEN cannot be compared: {error}", low.at) from error
        if order < 0:
            raise FilterError("the first limit of BETWEEN must not be above the second", low.at)
    return all_of([ordered(value, ">=", low), ordered(value, "<=", high)])


def not_between(value: SqlNode, low: SqlNode, high: SqlNode) -> SqlNode:
    """Return whether a value is outside of limits."""
    return any_of([ordered(value, "<", low), ordered(value, ">", high)])


def in_list(part: SqlNode, texts: Sequence[str], *, is_in: bool) -> SqlNode:
    """Return whether a property is one of some strings, or is none of them."""
    if not isinstance(part, Property):
        raise FilterError("only a property can be IN a list", part.at)
    name, members = part.name, frozenset(texts)

    def evaluate(properties: Properties) -> Value:
        value = properties.get(name)
        return None if value is None else (value in members) is is_in

    return _boolean(part.at, evaluate, part)


def text_test(part: SqlNode, word: str, search: str, *, is_so: bool) -> SqlNode:
    """Return whether a string has another in it, at its start or at its end, or has not.

    This is false, never null, for what is no string, and for an empty string to look for.
    """
    inner, has = part.evaluate, _TEXT_TESTS[word]

    def evaluate(properties: Properties) -> Value:
        value = inner(properties)
        return isinstance(value, str) and search != "" and has(value, search) is is_so

    return _boolean(part.at, evaluate, part)


_TEXT_TESTS: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": lambda text, search: search in text,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


def _equality(left: SqlNode, right: SqlNode) -> Evaluate:
    if isinstance(left, Property) and isinstance(right, Constant) and isinstance(right.value, str):
        name, text = left.name, right.value

        def same_text(properties: Properties) -> Value:
            value = properties.get(name)
            return None if value is None else value == text

        return same_text
    one, other = left.evaluate, right.evaluate

    def evaluate(properties: Properties) -> Value:
        value, second = one(properties), other(properties)
        if value is None or second is None:
            if value is second:
                return True
            return None if value is None else False
        return compare(value, second) == 0

    return evaluate


def _ordering(left: SqlNode, is_so: Callable[[Any, Any], bool], right: SqlNode) -> Evaluate:
    if isinstance(left, Property) and isinstance(right, Constant):
        return _property_and_number(left.name, is_so, right.value)
    one, other = left.evaluate, right.evaluate

    def evaluate(properties: Properties) -> Value:
        value = one(properties)
        if value is None:
            return None
        second = other(properties)
        if second is None:
            return None
        if isinstance(value, str) and isinstance(second, str):
            return is_so(compare_doubles(read_double(value), read_double(second)), 0)
        return is_so(compare(value, second), 0)

    return evaluate


def _property_and_number(name: str, is_so: Callable[[Any, Any], bool], number: Value) -> Evaluate:
    """Return the test that nearly every filter is made of."""
    if isinstance(number, float):
        limit = number

        def by_double(properties: Properties) -> Value:
            value = properties.get(name)
            return None if value is None else is_so(compare_doubles(read_double(value), limit), 0)

        return by_double
    read = read_long if isinstance(number, Long) else read_int

    def by_integer(properties: Properties) -> Value:
        value = properties.get(name)
        return None if value is None else is_so(read(value), number)

    return by_integer


def _is_number(value: Value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _boolean(at: int, evaluate: Evaluate, *parts: SqlNode) -> SqlNode:
    return _checked(SqlNode(at, evaluate, 1 + max(part.depth for part in parts), is_boolean=True))


def _checked(node: SqlNode) -> SqlNode:
    if node.depth > DEPTH_MAX:
        raise FilterError(f"more than {DEPTH_MAX} levels within each other", node.at)
    return node
