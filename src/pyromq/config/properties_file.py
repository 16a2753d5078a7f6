"""Java's `.properties` format, as RocketMQ's `broker.conf` is written.

    # a comment, also with !
    key = value            separated by =, : or white space
    long = first \\
           second          a backslash at the end goes on in the next line, without its indent
    name = caf\\u00e9      \\t \\n \\r \\f \\uXXXX; any other escaped character is itself

A comment needs a line of its own. Unlike Java we remove white space at the end of a value: it is never
meant, and `10911 ` is not a number to Java.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class Line:
    """One key and its value, with the number of the line that it starts on."""

    number: int
    key: str
    value: str


def read_properties(text: str) -> list[Line]:
    """Read all keys in their order; repeated ones are repeated.

    Raises ValueError, whose text begins with the line's number, for a `\\u` without four hex digits.
    """
    return [_split(number, line) for number, line in _logical_lines(text)]


def write_properties(values: Mapping[str, str]) -> str:
    """Write keys and values so that `read_properties` and Java read them back."""
    return "".join(f"{_escape(key, ' =:#!')}={_escape_value(value)}\n" for key, value in values.items())


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    lines = iter(enumerate(text.splitlines(), start=1))
    for number, raw in lines:
        line = raw.lstrip(_BLANKS)
        if not line or line[0] in "#!":
            continue
        yield number, _joined(line, lines)


def _joined(line: str, following: Iterable[tuple[int, str]]) -> str:
    parts = []
    continued = iter(following)
    while _goes_on(line):
        parts.append(line[:-1])
        _, raw = next(continued, (0, ""))
        line = raw.lstrip(_BLANKS)
    return "".join([*parts, line])


def _goes_on(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(number: int, line: str) -> Line:
    end = _end_of_key(line)
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    try:
        return Line(number, _unescape(line[:end]), _unescape(rest).rstrip())
    except ValueError as error:
        raise ValueError(f"{number}: {error}") from None


def _end_of_key(line: str) -> int:
    at = 0
    while at < len(line) and line[at] not in "=:" + _BLANKS:
        at += 2 if line[at] == "\\" else 1
    return min(at, len(line))


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out = []
    characters = iter(range(len(text)))
    for at in characters:
        if text[at] != "\\":
            out.append(text[at])
            continue
        escaped = text[at + 1 : at + 2]
        next(characters, None)
        if escaped == "u":
            out.append(chr(_hex(text[at + 2 : at + 6])))
            for _ in range(4):
                next(characters, None)
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    return "".join(out)


def _hex(digits: str) -> int:
    if len(digits) != 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
        raise ValueError(f"\\u needs four hex digits, not {digits!r}")
    return int(digits, 16)


def _escape(text: str, special: str) -> str:
    out = []
    for character in text:
        if character in special or character == "\\":
            out.append("\\" + character)
        elif character in "\t\n\r\f":
            out.append({"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}[character])
        elif " " <= character <= "~":
            out.append(character)
        else:
            out.extend(f"\\u{unit:04X}" for unit in _utf16(character))
    return "".join(out)


def _escape_value(value: str) -> str:
    escaped = _escape(value, "")
    return "\\" + escaped if escaped.startswith(" ") else escaped


def _utf16(character: str) -> list[int]:
    raw = character.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(raw[at : at + 2]) for at in range(0, len(raw), 2)]
