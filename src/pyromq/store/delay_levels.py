"""The delay levels: "1s 5s … 2h" gives level 1, 2, … their milliseconds."""

from typing import Final

from pyromq.errors import ConfigError

_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_delay_levels(text: str) -> dict[int, int]:
    """Return the milliseconds of each level, counted from 1; raise ConfigError, which names the bad word."""
    return {level: _milliseconds(word) for level, word in enumerate(text.split(), start=1)}


def _milliseconds(word: str) -> int:
    number, unit = word[:-1], word[-1]
    if unit not in _UNIT_MS or not (number.isascii() and number.isdecimal()):
        raise ConfigError(f"messageDelayLevel: {word!r} is not a delay; write a number and s, m, h or d")
    return int(number) * _UNIT_MS[unit]
