"""The options of a handler, checked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pyromq.app.outcomes import level_of
from pyromq.client.names import check_group
from pyromq.errors import ConfigError
from pyromq.model import ConsumeFrom, ReceivedMessage
from pyromq.once.tokens import Tokens

#: RocketMQ's own: the tries of a message after the first, unless it is read in order.
RETRIES: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerTerms:
    """The options of `app.consumer(…)`.

    `retries` is how often a message that failed comes again before it is a dead letter; -1: 16 times, and
    without end in order. `retry_after` says after what time: one delay for all tries, or one for each and
    the last for the rest ("10s", "1m", …); without it RocketMQ's, later each time. In order it is the pause
    of the queue, of seconds up to 30.

    `dead_letter` is the topic that gets dead letters, with the reason as a property; without it they go to
    the group's own (%DLQ%group). Errors of the classes in `give_up_on` make a message one at once, as Reject
    and a body that cannot be read do.

    `publishes` is the topic that gets what the handler returns. `once` keeps which business keys are done,
    `key` finds a message's; by default it is the first of its keys.
    """

    topic: str
    group: str
    tags: str = "*"
    sql: str | None = None
    retries: int = -1
    retry_after: str | Sequence[str] = ()
    dead_letter: str | None = None
    give_up_on: tuple[type[Exception], ...] = ()
    concurrency: int = 20
    ordered: bool = False
    broadcast: bool = False
    mode: str = "pull"
    publishes: str | None = None
    once: Tokens | None = None
    key: Callable[[ReceivedMessage], str] | None = None
    consume_from: ConsumeFrom = ConsumeFrom.LAST_OFFSET
    levels: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Check what cannot be."""
        check_group(self.group)
        if not 1 <= self.concurrency <= 1_000:
            raise ConfigError(f"concurrency={self.concurrency} must be from 1 to 1000")
        if self.retries < -1:
            raise ConfigError(f"retries={self.retries} must be -1 (RocketMQ's default), 0 or more")
        if self.sql is not None and self.tags != "*":
            raise ConfigError("a handler has tags or sql, not both")
        if self.key is not None and self.once is None:
            raise ConfigError("key=… is for once=…, which remembers the keys")
        wanted = [self.retry_after] if isinstance(self.retry_after, str) else self.retry_after
        levels = tuple(level_of(delay) for delay in wanted)
        object.__setattr__(self, "levels", levels)
        if self.ordered and any(level > ORDERED_LEVEL_MAX for level in levels):
            raise ConfigError("retry_after of an ordered handler is at most 30s: its queue waits meanwhile")

    def level(self, tries: int) -> int:
        """Return the delay level after so many tries that failed before; 0 for RocketMQ's own."""
        return self.levels[min(tries, len(self.levels) - 1)] if self.levels else 0

    def retries_of(self) -> int | None:
        """Return how often a message comes again; None: without end."""
        if self.retries == -1:
            return None if self.ordered else RETRIES
        return self.retries


#: "30s": RocketMQ lets no queue pause for longer.
ORDERED_LEVEL_MAX: int = level_of("30s")
