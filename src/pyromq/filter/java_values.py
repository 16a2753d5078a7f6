"""Comparisons of a SQL filter as RocketMQ makes them: Java's values, and strings that are read as such.

A message's properties are strings. One that meets a number is read as a number of that number's own kind, so
`price > 10` reads `price` as a 32-bit integer and finds none in "10.5"; `price > 10.0` does. What cannot be
read raises NoResult, and the message does not match.
"""

import re
from math import copysign, inf, isnan
from typing import Final

_INTEGER: Final = re.compile(r"[+-]?\d+")
_DECIMAL: Final = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?|Infinity|NaN)")
_HEXADECIMAL: Final = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?"
)
#: What Java's `String.trim` takes off.
_BLANKS: Final = "".join(map(chr, range(33)))

INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1


class Long(int):
    """A 64-bit number; a plain `int` is one of 32 bits, and they read strings differently."""


Value = str | bool | int | float | None


class NoResult(Exception):
    """The expression has no value for this message: a string that is no number, or kinds that do not fit."""


def read_int(text: str) -> int:
    """Return the 32-bit integer that a string is."""
    return _integer(text, INT_MAX)


def read_long(text: str) -> Long:
    """Return the 64-bit integer that a string is."""
    return Long(_integer(text, LONG_MAX))


def read_double(text: str) -> float:
    """Return the number that a string is, written as Java writes it or would accept it."""
    text = text.strip(_BLANKS)
    if _DECIMAL.fullmatch(text):
        # Not "Infinity", whose last letters are neither.
        return float(text[:-1] if text[-1] in "fFdD" else text)
    if hexadecimal := _HEXADECIMAL.fullmatch(text):
        try:
            return float.fromhex(hexadecimal[1])
        except OverflowError:
            return -inf if text[0] == "-" else inf
    raise NoResult(f"{text!r} is no number")


def read_bool(text: str) -> bool:
    """Return whether a string says true, in any case; everything else is false."""
    return text.lower() == "true"


def compare(left: Value, right: Value) -> int:
    """Return a number below, equal to or above 0, as RocketMQ orders two values that are not null."""
    left_kind, right_kind = type(left), type(right)
    if left_kind is right_kind:
        return _compare_alike(left, right)
    if left_kind is str:
        return _compare_alike(_READERS[right_kind](left), right)  # type: ignore[arg-type]
    if right_kind is str:
        if left_kind is bool:
            # Apache fails here, on a cast.
            raise NoResult("a truth value on the left cannot be compared with a string on the right")
        return _compare_alike(left, _READERS[left_kind](right))  # type: ignore[arg-type]
    if bool in (left_kind, right_kind):
        return -1
    return _compare_alike(left, right)


def compare_doubles(left: float, right: float) -> int:
    """Return the order of two doubles as Java has it: -0.0 before 0.0, and NaN after everything."""
    if left < right:
        return -1
    if left > right:
        return 1
    if left == right:
        return 0 if left else int(copysign(1, left) - copysign(1, right))
    return int(isnan(left)) - int(isnan(right))


def _compare_alike(left: Value, right: Value) -> int:
    if isinstance(left, float) or isinstance(right, float):
        return compare_doubles(float(left), float(right))  # type: ignore[arg-type]
    return (left > right) - (left < right)  # type: ignore[operator]


def _integer(text: str, most: int) -> int:
    # A longer one may be right only by leading zeros; Python refuses to read thousands of digits.
    if _INTEGER.fullmatch(text) and len(text) <= 1000 and -most - 1 <= (number := int(text)) <= most:
        return number
    raise NoResult(f"{text!r} is no whole number of that size")


_READERS: Final = {bool: read_bool, int: read_int, Long: read_long, float: read_double}
