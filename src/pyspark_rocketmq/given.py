"""Option values: found under any of their names, and read; each one that does not read is named.

Spark hands options over with their names in lower case.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeVar

from pyromq.errors import ConfigError

#: Spark's own options that reach every source.
_SPARK_OPTIONS: Final = {"path", "paths"}
_SIZES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_TIMES_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE: Final = re.compile(r"(\d+)\s*([kmgt]?)i?b?", re.IGNORECASE)
_DURATION: Final = re.compile(r"(\d+)\s*(ms|s|min|m|h|d)", re.IGNORECASE)

E = TypeVar("E", bound=StrEnum)


class GivenOptions:
    """The options that were given, by our names for them."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def text(self, name: str) -> str | None:
        """Return a value, or None when it was not given or is blank."""
        return self._values.get(name, "").strip() or None

    def required(self, name: str, example: str) -> str:
        """Return a value that must be there."""
        value = self.text(name)
        if value is None:
            raise ConfigError(f"format('rocketmq') needs .option({name!r}, …), for example {example!r}")
        return value

    def one_of(self, names: tuple[str, ...]) -> str | None:
        """Return which one of the options was given, or None."""
        found = [name for name in names if name in self._values]
        if len(found) > 1:
            raise ConfigError(f"{' and '.join(found)} were given together; give one of {', '.join(names)}")
        return found[0] if found else None

    def refuse(self, names: Iterable[str], why: str) -> None:
        """Raise ConfigError when one of the options was given."""
        for name in names:
            if name in self._values:
                raise ConfigError(f"{name} {why}")

    def member(self, name: str, kind: type[E], default: E) -> E:
        """Return one of a few words."""
        value = self.text(name)
        if value is None:
            return default
        try:
            return kind(value.lower())
        except ValueError:
            words = ", ".join(repr(str(word)) for word in kind)
            more = ", or JSON" if name.endswith("Offsets") else ""
            raise ConfigError(f"{name} is {value!r}; it can be {words}{more}") from None

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self.text(name)
        if value is not None and value.lower() not in ("true", "false"):
            raise ConfigError(f"{name} is {value!r}; it can be 'true' or 'false'")
        return default if value is None else value.lower() == "true"

    def limit(self, name: str) -> int | None:
        """Return a number of at least one, or None."""
        return None if self.text(name) is None else self.count(name, 1)

    def count(self, name: str, default: int, *, at_least: int = 1) -> int:
        """Return a number."""
        value = self.text(name)
        if value is None:
            return default
        if not value.isdecimal() or int(value) < at_least:
            raise ConfigError(f"{name} is {value!r}; it is a whole number, at least {at_least}")
        return int(value)

    def milliseconds(self, name: str, default: int) -> int:
        """Return a number of milliseconds, also of `10s`."""
        value = self.text(name)
        return self.count(name, default) if value is None or value.isdecimal() else self.duration(name, "")

    def duration(self, name: str, default: str) -> int:
        """Return milliseconds of `250ms`, `30s`, `15m`, `2h`."""
        value = self.text(name) or default
        found = _DURATION.fullmatch(value)
        if found is None:
            raise ConfigError(f"{name} is {value!r}; it is a time like '250ms', '30s', '15m' or '2h'")
        return int(found[1]) * _TIMES_MS[found[2].lower()]

    def size(self, name: str) -> int | None:
        """Return bytes of `1048576`, `64k`, `64m`, `1g`, or None."""
        value = self.text(name)
        if value is None:
            return None
        found = _SIZE.fullmatch(value)
        if found is None or int(found[1]) == 0:
            raise ConfigError(f"{name} is {value!r}; it is a number of bytes like '1048576', '64m' or '1g'")
        return int(found[1]) * _SIZES[found[2].lower()]

    def pattern(self, name: str) -> str:
        """Return a regular expression."""
        value = self.required(name, "orders.*")
        try:
            re.compile(value)
        except re.error as error:
            raise ConfigError(f"{name} is {value!r}, which is no regular expression: {error}") from error
        return value


def given_options(options: Mapping[str, str], names: Mapping[str, tuple[str, ...]]) -> GivenOptions:
    """Return the options by our names; raise ConfigError for one that none of the `names` has."""
    ours = {name.lower(): name for name in names}
    ours |= {other.lower(): name for name, others in names.items() for other in others}
    values: dict[str, str] = {}
    for key, value in options.items():
        name = ours.get(key.lower())
        if name is None:
            if key.lower() in _SPARK_OPTIONS:
                continue
            raise ConfigError(f"format('rocketmq') has no option {key!r}{_nearest(key, ours, names)}")
        if name in values and values[name] != value:
            raise ConfigError(f"{name} was given twice, as {values[name]!r} and, by another name, {value!r}")
        values[name] = value
    return GivenOptions(values)


def _nearest(key: str, ours: Mapping[str, str], names: Iterable[str]) -> str:
    near = difflib.get_close_matches(key.lower(), ours, n=1)
    return f"; did you mean {ours[near[0]]!r}?" if near else f"; it has {', '.join(names)}"
