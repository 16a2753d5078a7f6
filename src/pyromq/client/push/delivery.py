"""The second argument of a listener, and its possible answers."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from pyromq.model import MessageQueue, ReceivedMessage


class ConsumeResult(StrEnum):
    """The result of a listener. None and True mean SUCCESS; False and an exception, RECONSUME_LATER."""

    SUCCESS = "SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"
    #: Only in order, and only when the delivery's `auto_commit` was set to False.
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"


@dataclass(slots=True)
class Delivery:
    """One call of a listener. The listener may change all but the queue, to say what is to happen next.

    `delay_level` is when a message that failed comes again: 1 to 18, 0 for later each time, −1 for never (it
    becomes a dead letter); in order only −1 counts. `ack_index` is the last message of a batch that
    succeeded, when not all did. `suspend_ms` is how long a queue read in order waits after a failure. With
    `auto_commit` False, a listener in order commits when it answers COMMIT.
    """

    queue: MessageQueue
    delay_level: int = 0
    ack_index: int | None = None
    suspend_ms: int | None = None
    auto_commit: bool = True


#: Handles one message. What it returns is a ConsumeResult, a bool or None, or (for asyncio) awaits to one.
Listener: TypeAlias = Callable[[ReceivedMessage], object] | Callable[[ReceivedMessage, Delivery], object]
#: Handles several messages of one queue at once.
BatchListener: TypeAlias = (
    Callable[[list[ReceivedMessage]], object] | Callable[[list[ReceivedMessage], Delivery], object]
)
