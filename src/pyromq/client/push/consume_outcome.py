"""The outcome of a listener's call: which messages are done, and which come again.

| answer                          | concurrent                             | in order                     |
| ------------------------------- | -------------------------------------- | ---------------------------- |
| None, True, SUCCESS             | done up to `ack_index`, the rest again | done                         |
| False, RECONSUME_LATER, a raise | all again                              | tried again after a pause    |
| COMMIT, ROLLBACK                | as SUCCESS, as RECONSUME_LATER         | for `auto_commit=False` only |
"""

from collections.abc import Sequence

from pyromq.client.hooks import Consuming
from pyromq.client.push.delivery import ConsumeResult, Delivery
from pyromq.client.push.process_queue import ProcessQueue
from pyromq.errors import ConfigError
from pyromq.model import MessageQueue, ReceivedMessage


class Work:
    """Messages for one call of the listener, and its result. A direct consumption has no `state`."""

    __slots__ = (
        "_delivery",
        "consuming",
        "error",
        "is_skipped",
        "messages",
        "queue",
        "result",
        "spent_ms",
        "state",
    )

    def __init__(
        self, state: ProcessQueue | None, messages: list[ReceivedMessage], queue: MessageQueue
    ) -> None:
        self.state = state
        self.messages = messages
        self.queue = queue
        self.result: ConsumeResult | None = None
        self.error: BaseException | None = None
        self.spent_ms = 0
        #: Whether the listener was not called, because its queue is gone or the consumer is closing.
        self.is_skipped = False
        #: What hooks are shown, if there are any.
        self.consuming: Consuming | None = None
        # Made when it is asked for: most listeners never do.
        self._delivery: Delivery | None = None

    @property
    def is_dropped(self) -> bool:
        """Whether its messages went to another member, so that no listener is to be called with them."""
        return self.state is not None and self.state.is_dropped

    @property
    def delivery(self) -> Delivery:
        """The details of this call that the listener gets, and may change."""
        if self._delivery is None:
            self._delivery = Delivery(self.queue)
        return self._delivery

    @property
    def ack_index(self) -> int | None:
        """The last message that succeeded, if the listener said so."""
        return None if self._delivery is None else self._delivery.ack_index

    @property
    def verdict(self) -> ConsumeResult:
        """The listener's answer; an exception is RECONSUME_LATER."""
        if self.error is not None or self.result is None:
            return ConsumeResult.RECONSUME_LATER
        return self.result

    @property
    def is_plain_success(self) -> bool:
        """Whether all of its messages are done, without more to say."""
        return (
            self.result is ConsumeResult.SUCCESS
            and self.error is None
            and (self._delivery is None or self._delivery.ack_index is None)
        )


def as_result(answer: object) -> ConsumeResult:
    """Return what a listener's answer means; raise ConfigError for one that means nothing."""
    if answer is None or answer is True:
        return ConsumeResult.SUCCESS
    if answer is False:
        return ConsumeResult.RECONSUME_LATER
    if isinstance(answer, ConsumeResult):
        return answer
    raise ConfigError(
        f"the listener returned {answer!r}; return None, True or ConsumeResult.SUCCESS when the message is "
        "done, False or ConsumeResult.RECONSUME_LATER when it is to come again"
    )


def split(
    messages: Sequence[ReceivedMessage], verdict: ConsumeResult, ack_index: int | None
) -> tuple[list[ReceivedMessage], list[ReceivedMessage]]:
    """Return the messages that are done and those that failed."""
    if verdict in (ConsumeResult.RECONSUME_LATER, ConsumeResult.ROLLBACK):
        return [], list(messages)
    done = len(messages) if ack_index is None else min(max(ack_index + 1, 0), len(messages))
    return list(messages[:done]), list(messages[done:])


def suspend_s(wanted_ms: int | None, default_ms: int) -> float:
    """Return for how long a queue read in order waits after a failure: RocketMQ allows 10 ms to 30 s."""
    chosen = default_ms if wanted_ms is None or wanted_ms == -1 else wanted_ms
    return min(max(chosen, 10), 30_000) / 1_000
