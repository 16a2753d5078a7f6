"""The JSON that RocketMQ's fastjson 1.2.69 writes and reads.

Written: no whitespace, or tabs when pretty; the fields of an object alphabetical, nothing that is null;
integer keys without quotes, and queues as keys as bare objects:

    {"offsetTable":{{"brokerName":"a","queueId":3,"topic":"T"}:{"maxOffset":0}}}     {"T@g":{0:12,1:3}}

Pretty, an entry whose key is not text stays on the line of the one before it:

    {
    →"offsetTable":{
    →→"T@g":{0:12,1:3
    →→}
    →}
    }

Read: all of that, and what fastjson forgives: names without quotes, single quotes, commas too many, raw
control characters in strings, bytes that are not UTF-8. Plain JSON takes the fast way through msgspec.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from pyromq.errors import BodyError
from pyromq.model import MessageQueue

#: Deeper nesting than this does not exist in RocketMQ's bodies; it is an attack on the stack.
DEPTH_MAX: Final = 64
#: No number of RocketMQ's has more digits.
_DIGITS_MAX: Final = 40


class ObjectKey(NamedTuple):
    """An object that stood where a key belongs: its fields, sorted by name."""

    fields: tuple[tuple[str, Any], ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return dict(self.fields)


# Writing ---------------------------------------------------------------------------------------------------

_SHORT_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
    "/": "\\/",
}
_TO_ESCAPE: Final = re.compile('["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]')
_TO_ESCAPE_IN_ASCII: Final = re.compile('["\\\\/\x00-\x1f\x7f-\U0010ffff]')


def dumps(value: Any, *, pretty: bool = False, ascii_only: bool = False) -> bytes:
    """Return a value as fastjson writes it.

    Takes maps, lists, text, numbers, msgspec structs and queues. `ascii_only` is fastjson's
    "BrowserCompatible": every key quoted, everything beyond ASCII escaped, and the slash too.
    """
    parts: list[str] = []
    _Writer(parts, pretty=pretty, ascii_only=ascii_only).write(value, 0)
    return "".join(parts).encode()


class Encoded:
    """A value whose JSON was made before, in parts: the whole is long, and is copied once less so."""

    __slots__ = ("parts",)

    def __init__(self, *parts: str) -> None:
        self.parts = parts


def entry_text(key: str, value: Any, depth: int, *, pretty: bool) -> str:
    """Return what stands between two commas of a map's JSON, whose entries are at a depth."""
    parts: list[str] = []
    _Writer(parts, pretty=pretty, ascii_only=False).write_entry(key, value, depth)
    return "".join(parts)


class _Writer:
    __slots__ = ("_ascii_only", "_parts", "_pretty")

    def __init__(self, parts: list[str], *, pretty: bool, ascii_only: bool) -> None:
        self._parts = parts
        self._pretty = pretty
        self._ascii_only = ascii_only

    def write(self, value: Any, depth: int) -> None:
        if isinstance(value, str):
            self._parts.append(self._text(value))
        elif value is None:
            self._parts.append("null")
        elif isinstance(value, bool):
            self._parts.append("true" if value else "false")
        elif isinstance(value, int):
            self._parts.append(str(int(value)))
        elif isinstance(value, float):
            self._parts.append(java_double(value))
        elif isinstance(value, Mapping):
            self._map(list(value.items()), depth)
        elif isinstance(value, list | tuple | set | frozenset) and not isinstance(value, ObjectKey):
            self._list(list(value), depth)
        elif isinstance(value, Encoded):
            self._parts.extend(value.parts)
        else:
            self._map(_object_fields(value), depth)

    def write_entry(self, key: Any, value: Any, depth: int) -> None:
        self._key(key, depth)
        self._parts.append(":")
        self.write(value, depth)

    def _map(self, entries: list[tuple[Any, Any]], depth: int) -> None:
        parts, is_first = self._parts, True
        parts.append("{")
        for key, value in entries:
            if value is None:
                continue
            if not is_first:
                parts.append(",")
            is_first = False
            self.write_entry(key, value, depth + 1)
        if not is_first:
            self._new_line(depth)
        parts.append("}")

    def _key(self, key: Any, depth: int) -> None:
        if isinstance(key, str):
            self._new_line(depth)
            self._parts.append(self._text(key))
        elif isinstance(key, int) and not self._ascii_only:
            self._parts.append(str(int(key)))
        elif isinstance(key, int):
            self._parts.append(f'"{int(key)}"')
        else:
            self.write(key, depth)

    def _list(self, items: list[Any], depth: int) -> None:
        parts = self._parts
        parts.append("[")
        for index, item in enumerate(items):
            if index:
                parts.append(",")
            self._new_line(depth + 1)
            self.write(item, depth + 1)
        if items:
            self._new_line(depth)
        parts.append("]")

    def _new_line(self, depth: int) -> None:
        if self._pretty:
            self._parts.append("\n" + "\t" * depth)

    def _text(self, text: str) -> str:
        pattern = _TO_ESCAPE_IN_ASCII if self._ascii_only else _TO_ESCAPE
        return f'"{pattern.sub(_escape, text)}"'


def _object_fields(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, MessageQueue):
        return [("brokerName", value.broker_name), ("queueId", value.queue_id), ("topic", value.topic)]
    if isinstance(value, ObjectKey):
        return list(value.fields)
    if isinstance(value, msgspec.Struct):
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        return sorted((wire_name, getattr(value, name)) for wire_name, name in names)
    raise TypeError(f"a {type(value).__name__} has no JSON")


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    short = _SHORT_ESCAPES.get(character)
    if short is not None:
        return short
    number = ord(character)
    if number < 0x10000:
        # A lone surrogate is no character; Java writes a question mark for it.
        return "?" if 0xD800 <= number <= 0xDFFF else f"\\u{number:04X}"
    number -= 0x10000
    return f"\\u{0xD800 | number >> 10:04X}\\u{0xDC00 | number & 0x3FF:04X}"


def java_double(value: float) -> str:
    """Return a number as Java's `Double.toString` does; fastjson writes what is not finite as null."""
    if value != value or value in (float("inf"), float("-inf")):
        return "null"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    digits, _, exponent = f"{value!r}".partition("e")
    if not exponent:
        digits, _, exponent = _scientific(digits).partition("e")
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


def _scientific(digits: str) -> str:
    sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    whole, _, fraction = digits.partition(".")
    significant = (whole + fraction).strip("0")
    exponent = len(whole) - 1 if whole != "0" else len(fraction.lstrip("0")) - len(fraction) - 1
    return f"{sign}{significant[0]}.{significant[1:] or '0'}e{exponent}"


# Reading ---------------------------------------------------------------------------------------------------

_decode_plain = msgspec.json.Decoder().decode


def loads(data: bytes | str) -> Any:
    """Return the value; raise BodyError when it is none.

    Keys are text, or `int` where an integer stood without quotes, or `ObjectKey` where an object stood.
    """
    try:
        return _decode_plain(data)
    except RecursionError as error:
        raise BodyError("the JSON is nested too deep") from error
    except (msgspec.DecodeError, UnicodeError):
        text = data if isinstance(data, str) else data.decode("utf-8", "replace")
        return _Reader(text).read()


_SPACE: Final = re.compile(r"[\s\ufeff]*")
_SPACE_AND_COMMAS: Final = re.compile(r"[\s,]*")
_STRING: Final = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"|' r"'([^'\\]*(?:\\.[^'\\]*)*)'", re.DOTALL)
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_NUMBER_STARTS: Final = frozenset("-0123456789")
_WORD: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_ESCAPED: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_UNESCAPED: Final = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "v": "\v", "0": "\0"}
_WORDS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None, "NaN": None}


class _Reader:
    __slots__ = ("_at", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def read(self) -> Any:
        value = self._value(0)
        self._skip(_SPACE)
        if self._at != len(self._text):
            self._fail("something follows the value")
        return value

    def _value(self, depth: int) -> Any:
        if depth > DEPTH_MAX:
            self._fail("it is nested too deep")
        self._skip(_SPACE)
        character = self._text[self._at : self._at + 1]
        if character == "{":
            return self._object(depth)
        if character == "[":
            return self._list(depth)
        if character in ('"', "'"):
            return self._string()
        if character in _NUMBER_STARTS:
            return self._number()
        word = self._match(_WORD).group()
        if word not in _WORDS:
            self._fail(f"{word!r} is no value")
        return _WORDS[word]

    def _object(self, depth: int) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        self._at += 1
        while not self._ended_by("}"):
            key = self._key(depth + 1)
            self._skip(_SPACE)
            if self._text[self._at : self._at + 1] != ":":
                self._fail("a colon is missing")
            self._at += 1
            result[key] = self._value(depth + 1)
            self._comma_or("}")
        return result

    def _list(self, depth: int) -> list[Any]:
        result: list[Any] = []
        self._at += 1
        while not self._ended_by("]"):
            result.append(self._value(depth + 1))
            self._comma_or("]")
        return result

    def _key(self, depth: int) -> str | int | ObjectKey:
        character = self._text[self._at : self._at + 1]
        if character in ('"', "'"):
            return self._string()
        if character == "{":
            if depth > DEPTH_MAX:
                self._fail("it is nested too deep")
            fields = self._object(depth)
            if any(isinstance(value, dict | list) for value in fields.values()):
                self._fail("an object that is a key may hold no other")
            return ObjectKey(tuple(sorted(((str(name), fields[name]) for name in fields), key=_first)))
        if character in _NUMBER_STARTS:
            number = self._number()
            return number if isinstance(number, int) else str(number)
        return self._match(_WORD).group()

    def _string(self) -> str:
        match = self._match(_STRING)
        text: str = match.group(1) if match.group(1) is not None else match.group(2)
        if "\\" not in text:
            return text
        text = _ESCAPED.sub(_unescape, text)
        if _SURROGATE.search(text):
            # Two escapes that are one character come together; half of one is replaced, as Java does.
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return text

    def _number(self) -> int | float:
        match = self._match(_NUMBER)
        digits = match.group()
        if len(digits) > _DIGITS_MAX:
            self._fail("a number is too long")
        return int(digits) if match.group(1) is None and match.group(2) is None else float(digits)

    def _ended_by(self, bracket: str) -> bool:
        self._skip(_SPACE_AND_COMMAS)
        if self._text[self._at : self._at + 1] != bracket:
            return False
        self._at += 1
        return True

    def _comma_or(self, bracket: str) -> None:
        self._skip(_SPACE)
        if self._text[self._at : self._at + 1] not in (",", bracket):
            self._fail(f"a comma or {bracket!r} is missing")

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self._text, self._at)
        assert match is not None
        self._at = match.end()

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = pattern.match(self._text, self._at)
        if match is None:
            self._fail("a value is missing")
        self._at = match.end()
        return match

    def _fail(self, reason: str) -> NoReturn:
        near = self._text[max(self._at - 20, 0) : self._at + 20]
        raise BodyError(f"not JSON at character {self._at}, near {near!r}: {reason}")


def _first(field: tuple[str, Any]) -> str:
    return field[0]


def _unescape(match: re.Match[str]) -> str:
    unicode, byte, character = match.groups()
    if character is not None:
        return _UNESCAPED.get(character, character)
    return chr(int(unicode or byte, 16))
