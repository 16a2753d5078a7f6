"""The end of a handler's call, and what is to happen to its message then."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pyromq.errors import ConfigError

#: RocketMQ's delay levels by their names, as brokers have them unless `messageDelayLevel` is changed.
_DELAYS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
LEVELS: Final = {delay: level for level, delay in enumerate(_DELAYS.split(), start=1)}


class Reject(Exception):
    """Raised by a handler: the message is a dead letter now, and is not tried again."""


class RetryLater(Exception):
    """Raised by a handler: the message comes again, after `after` if that is given ("10s", "1m", … "2h").

    It counts as a try.
    """

    def __init__(self, reason: str = "", *, after: str | None = None) -> None:
        super().__init__(reason)
        self.level = level_of(after) if after is not None else None


class Result(StrEnum):
    """The end of one message's call; the texts are those of the metrics."""

    DONE = "done"
    RETRIED = "retried"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one call: the result, the error behind it, and the delay level of the next try."""

    result: Result
    error: Exception | None = None
    level: int = 0


def level_of(delay: str) -> int:
    """Return the delay level of a text like "10s"; raise ConfigError for one that RocketMQ does not have."""
    level = LEVELS.get(delay)
    if level is None:
        raise ConfigError(f"{delay!r} is no delay of a retry; RocketMQ has {', '.join(LEVELS)}")
    return level
