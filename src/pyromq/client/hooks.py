"""Hooks: an application's own code around every try of a send, and around every call of a listener.

A hook that fails is logged and changes nothing, with one exception: `SendHook.check` is there to forbid, and
what it raises is the failure of that try.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyromq.client.tracing.trace_format import MessageKind
from pyromq.model import (
    CommunicationMode,
    Message,
    MessageQueue,
    ReceivedMessage,
    SendResult,
    TransactionState,
)
from pyromq.wire import properties as names

_log = logging.getLogger("pyromq.client")


@dataclass(slots=True)
class Sending:
    """One try of a send. `message` is the application's, a batch's first; `topic` is the name on the wire.

    `kind` says whether the message is delayed or a transaction's half, `mode` how the application sends it.
    `namespace` is the client's; `group`, `topic` and `queue` have it in front of them.

    `result` or `error` is there when `after` is called; a oneway send has neither. `notes` are for hooks.
    What `before` puts into `properties` travels with the message, unless it is a batch.
    """

    group: str
    message: Message
    topic: str
    queue: MessageQueue
    broker_address: str
    is_batch: bool = False
    kind: MessageKind = MessageKind.NORMAL
    mode: CommunicationMode = CommunicationMode.SYNC
    namespace: str = ""
    result: SendResult | None = None
    error: BaseException | None = None
    notes: dict[str, object] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Ending:
    """The end of a transaction, told to the broker. `was_asked` says whether the broker had asked for it."""

    group: str
    message: Message | ReceivedMessage
    message_id: str
    broker_address: str
    state: TransactionState
    transaction_id: str | None = None
    was_asked: bool = False
    namespace: str = ""


class SendHook:
    """Called for every try of a send, so twice for a send that succeeds at the second broker."""

    def check(self, sending: Sending) -> None:
        """Raise to forbid the try; what is raised counts as its failure.

        An error that another broker may mend (a NetworkError, a retriable Refused) is tried again elsewhere,
        any other goes to the caller at once.
        """

    def before(self, sending: Sending) -> None:
        """Act before the request leaves."""

    def after(self, sending: Sending) -> None:
        """Act when the answer came, or none."""

    def ended(self, ending: Ending) -> None:
        """Act when the end of a transaction was told."""


@dataclass(slots=True)
class Consuming:
    """One call of a listener. `is_success` is known when `after` is called.

    `namespace` is the client's; `group` and `queue` have it in front of them, `messages` do not.
    """

    group: str
    queue: MessageQueue
    messages: Sequence[ReceivedMessage]
    namespace: str = ""
    is_success: bool | None = None
    error: BaseException | None = None
    notes: dict[str, object] = field(default_factory=dict)


class ConsumeHook:
    """Called for every call of a listener."""

    def before(self, consuming: Consuming) -> None:
        """Act before the listener gets the messages."""

    def after(self, consuming: Consuming) -> None:
        """Act when the listener returned or raised."""


def kind_of(message: Message) -> MessageKind:
    """Return what kind of message this is, as RocketMQ's client tells it from the properties."""
    if message.is_delayed or names.START_DELIVER_TIME in message.properties:
        return MessageKind.DELAY
    if message.properties.get(names.TRANSACTION_PREPARED) == "true":
        return MessageKind.HALF
    return MessageKind.NORMAL


def before_send(hooks: Sequence[SendHook], sending: Sending) -> None:
    """Call what comes before a try of a send; raise what a `check` raises."""
    for hook in hooks:
        hook.check(sending)
    for hook in hooks:
        try:
            hook.before(sending)
        except Exception:  # noqa: BLE001  the application's code; a send does not fail because of it
            _log.exception("the hook %s failed before a send to topic %s", _name(hook), sending.topic)


def after_send(hooks: Sequence[SendHook], sending: Sending) -> None:
    """Call what comes after a try of a send."""
    for hook in hooks:
        try:
            hook.after(sending)
        except Exception:  # noqa: BLE001  the application's code; a send does not fail because of it
            _log.exception("the hook %s failed after a send to topic %s", _name(hook), sending.topic)


def after_end(hooks: Sequence[SendHook], ending: Ending) -> None:
    """Call what comes after the end of a transaction."""
    for hook in hooks:
        try:
            hook.ended(ending)
        except Exception:  # noqa: BLE001  the application's code; the transaction has ended
            _log.exception("the hook %s failed after a transaction of %s", _name(hook), ending.message_id)


def before_consume(hooks: Sequence[ConsumeHook], consuming: Consuming) -> None:
    """Call what comes before a listener."""
    for hook in hooks:
        try:
            hook.before(consuming)
        except Exception:  # noqa: BLE001  the application's code; the listener is called all the same
            _log.exception("the hook %s failed before messages of %s", _name(hook), consuming.queue)


def after_consume(hooks: Sequence[ConsumeHook], consuming: Consuming) -> None:
    """Call what comes after a listener."""
    for hook in hooks:
        try:
            hook.after(consuming)
        except Exception:  # noqa: BLE001  the application's code; what the listener said holds
            _log.exception("the hook %s failed after messages of %s", _name(hook), consuming.queue)


def _name(hook: object) -> str:
    return type(hook).__name__
