"""RocketMQ in Python: the client's public names. `pyromq.aio` has the same, awaitable."""

from pyromq.client import allocation
from pyromq.client.dead_letters import (
    DeadLetter,
    DeadLetterCount,
    DeadLetterFilter,
    ReplayOutcome,
    ReplayResult,
    ReplayTo,
)
from pyromq.client.hooks import ConsumeHook, Consuming, SendHook, Sending
from pyromq.client.outgoing import SendCallback
from pyromq.client.push.delivery import ConsumeResult, Delivery
from pyromq.client.queue_choice import Selector, select_by_hash
from pyromq.client.requests import ReplyCallback, reply_to
from pyromq.client.sync.admin import Admin
from pyromq.client.sync.dead_letters import DeadLetters
from pyromq.client.sync.producer import Producer
from pyromq.client.sync.pull_consumer import PullConsumer
from pyromq.client.sync.push_consumer import PushConsumer
from pyromq.client.sync.transaction_producer import TransactionProducer
from pyromq.codes import Perm
from pyromq.config.settings import ClientSettings, Compression
from pyromq.errors import (
    AlreadyStarted,
    ClientClosed,
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    IllegalOperation,
    MessageIllegal,
    NetworkError,
    NoMaster,
    NoPermission,
    NoRoute,
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

__all__ = [
    "Admin",
    "AlreadyStarted",
    "ClientClosed",
    "ClientSettings",
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
    "IllegalOperation",
    "Message",
    "MessageIllegal",
    "MessageQueue",
    "NetworkError",
    "NoMaster",
    "NoPermission",
    "NoRoute",
    "Perm",
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
    "SystemBusy",
    "TooManyInFlight",
    "TopicNotFound",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
    "WaitingMessage",
    "allocation",
    "reply_to",
    "select_by_hash",
]
