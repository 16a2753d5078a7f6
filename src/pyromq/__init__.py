"""RocketMQ in Python: the client's public names. `pyromq.aio` has the same, awaitable."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyromq.codes import Perm, TopicSysFlag
from pyromq.errors import (
    AlreadyStarted,
    BodyTooLarge,
    ClientClosed,
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    HandleExpired,
    IllegalOperation,
    MessageIllegal,
    NetworkError,
    NoMaster,
    NoNameServerKnown,
    NoPermission,
    NoReply,
    NoRoute,
    NotMaster,
    PopUnsupported,
    PyroError,
    QueryNotFound,
    Refused,
    RequestTimeout,
    SendFailed,
    ServiceNotAvailable,
    SystemBusy,
    TooManyInFlight,
    TopicNotFound,
)
from pyromq.model import (
    CommunicationMode,
    ConsumeFrom,
    Message,
    MessageQueue,
    PullResult,
    PullStatus,
    ReceivedMessage,
    SendResult,
    SendStatus,
    TransactionResult,
    TransactionState,
    WaitingMessage,
)

if TYPE_CHECKING:
    from pyromq.app import App
    from pyromq.client.consumer import allocation
    from pyromq.client.dead_letter import (
        DeadLetter,
        DeadLetterCount,
        DeadLetterFilter,
        ReplayOutcome,
        ReplayResult,
        ReplayTo,
    )
    from pyromq.client.hooks import ConsumeHook, Consuming, SendHook, Sending
    from pyromq.client.producer.outgoing import SendCallback
    from pyromq.client.producer.queue_choice import Selector, select_by_hash
    from pyromq.client.producer.request_reply import ReplyCallback, reply_to
    from pyromq.client.push.delivery import ConsumeResult, Delivery
    from pyromq.client.sync.admin import Admin
    from pyromq.client.sync.dead_letters import DeadLetters
    from pyromq.client.sync.producer import Producer
    from pyromq.client.sync.pull_consumer import PullConsumer
    from pyromq.client.sync.push_consumer import PushConsumer
    from pyromq.client.sync.simple_consumer import SimpleConsumer
    from pyromq.client.sync.transaction_producer import TransactionProducer
    from pyromq.client.tracing.trace_format import MessageKind
    from pyromq.config.choices import Compression
    from pyromq.config.settings import ClientSettings

__all__ = [
    "Admin",
    "AlreadyStarted",
    "App",
    "BodyTooLarge",
    "ClientClosed",
    "ClientSettings",
    "CommunicationMode",
    "Compression",
    "ConfigError",
    "ConnectFailed",
    "ConnectionLost",
    "ConsumeFrom",
    "ConsumeHook",
    "ConsumeResult",
    "Consuming",
    "DeadLetter",
    "DeadLetterCount",
    "DeadLetterFilter",
    "DeadLetters",
    "Delivery",
    "HandleExpired",
    "IllegalOperation",
    "Message",
    "MessageIllegal",
    "MessageKind",
    "MessageQueue",
    "NetworkError",
    "NoMaster",
    "NoNameServerKnown",
    "NoPermission",
    "NoReply",
    "NoRoute",
    "NotMaster",
    "Perm",
    "PopUnsupported",
    "Producer",
    "PullConsumer",
    "PullResult",
    "PullStatus",
    "PushConsumer",
    "PyroError",
    "QueryNotFound",
    "ReceivedMessage",
    "Refused",
    "ReplayOutcome",
    "ReplayResult",
    "ReplayTo",
    "ReplyCallback",
    "RequestTimeout",
    "Selector",
    "SendCallback",
    "SendFailed",
    "SendHook",
    "SendResult",
    "SendStatus",
    "Sending",
    "ServiceNotAvailable",
    "SimpleConsumer",
    "SystemBusy",
    "TooManyInFlight",
    "TopicNotFound",
    "TopicSysFlag",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
    "WaitingMessage",
    "allocation",
    "reply_to",
    "select_by_hash",
]

#: Where the names are that are imported when somebody first asks for them. Every command imports this,
#: and few need a client: without one they start in two thirds of the time.
_PLACES = {
    "App": "pyromq.app.application",
    "allocation": "pyromq.client.consumer.allocation",
    "DeadLetter": "pyromq.client.dead_letter",
    "DeadLetterCount": "pyromq.client.dead_letter",
    "DeadLetterFilter": "pyromq.client.dead_letter",
    "ReplayOutcome": "pyromq.client.dead_letter",
    "ReplayResult": "pyromq.client.dead_letter",
    "ReplayTo": "pyromq.client.dead_letter",
    "ConsumeHook": "pyromq.client.hooks",
    "Consuming": "pyromq.client.hooks",
    "SendHook": "pyromq.client.hooks",
    "Sending": "pyromq.client.hooks",
    "SendCallback": "pyromq.client.producer.outgoing",
    "ConsumeResult": "pyromq.client.push.delivery",
    "Delivery": "pyromq.client.push.delivery",
    "Selector": "pyromq.client.producer.queue_choice",
    "select_by_hash": "pyromq.client.producer.queue_choice",
    "ReplyCallback": "pyromq.client.producer.request_reply",
    "reply_to": "pyromq.client.producer.request_reply",
    "Admin": "pyromq.client.sync.admin",
    "DeadLetters": "pyromq.client.sync.dead_letters",
    "Producer": "pyromq.client.sync.producer",
    "PullConsumer": "pyromq.client.sync.pull_consumer",
    "PushConsumer": "pyromq.client.sync.push_consumer",
    "SimpleConsumer": "pyromq.client.sync.simple_consumer",
    "TransactionProducer": "pyromq.client.sync.transaction_producer",
    "MessageKind": "pyromq.client.tracing.trace_format",
    "ClientSettings": "pyromq.config.settings",
    "Compression": "pyromq.config.settings",
}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        place = _PLACES.get(name)
        if place is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(place)
        # One of the names is a module.
        value = module if module.__name__.endswith(f".{name}") else getattr(module, name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_PLACES})
