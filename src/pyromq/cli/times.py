"""Times as people write them: a moment, or how long."""

import re
import time
from datetime import datetime
from typing import Final

from pyromq.errors import ConfigError

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?")


def span_s(text: str, option: str) -> float:
    """Return the seconds of `90`, `90s`, `1.5h`; a number alone is in seconds."""
    match = _SPAN.fullmatch(text)
    if match is None:
        raise ConfigError(f"{option} {text}: expected how long, as 90s, 15m, 2h, 30d or 500ms")
    return float(match[1]) * _SECONDS[match[2] or "s"]


def moment_ms(text: str, option: str) -> int:
    """Return the milliseconds since 1970 of a time, local unless it has a zone, or of `+2h`, from now."""
    if text.startswith("+"):
        return round((time.time() + span_s(text[1:], option)) * 1_000)
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1_000)
    except ValueError:
        raise ConfigError(
            f"{option} {text}: expected a time as 2026-01-31T12:00:00, +2h from now, or milliseconds since "
            "1970"
        ) from None


def past_ms(text: str, option: str) -> int:
    """Return the milliseconds since 1970 of a time as `moment_ms` reads it, or of `2h`: so long ago."""
    match = _SPAN.fullmatch(text)
    if match is not None and match[2]:
        return round((time.time() - span_s(text, option)) * 1_000)
    try:
        return moment_ms(text, option)
    except ConfigError:
        raise ConfigError(
            f"{option} {text}: expected a time as 2026-01-31T12:00:00, so long ago as 30m, 2h or 7d, or "
            "milliseconds since 1970"
        ) from None


def written(at_ms: int) -> str:
    """Return a moment in local time."""
    try:
        return datetime.fromtimestamp(at_ms / 1_000).isoformat(" ", "milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"


def written_short(at_ms: int) -> str:
    """Return a moment in local time to the second, without the date if that is today's."""
    text = written(at_ms).partition(".")[0]
    today = datetime.now().date().isoformat()
    return text.removeprefix(f"{today} ")


def remaining(ms: int) -> str:
    """Return how long something is still to come, in its two largest units."""
    if ms <= 0:
        return "overdue"
    left = ms // 1_000
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or f"{ms}ms"
