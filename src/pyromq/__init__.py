"""RocketMQ in Python: the client's public names. `pyromq.aio` has the same, awaitable."""

from pyromq.client.outgoing import SendCallback
from pyromq.client.queue_choice import Selector, select_by_hash
from pyromq.client.sync.admin import Admin
from pyromq.client.sync.producer import Producer
from pyromq.client.sync.pull_consumer import PullConsumer
from pyromq.codes import Perm
from pyromq.config.settings import ClientSettings
from pyromq.errors import (
    AlreadyStarted,
    ClientClosed,
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    MessageIllegal,
    NetworkError,
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
)

__all__ = [
    "Admin",
    "AlreadyStarted",
    "ClientClosed",
    "ClientSettings",
    "ConfigError",
    "ConnectFailed",
    "ConnectionLost",
    "ConsumeFrom",
    "Message",
    "MessageIllegal",
    "MessageQueue",
    "NetworkError",
    "NoPermission",
    "NoRoute",
    "Perm",
    "Producer",
    "PullConsumer",
    "PullResult",
    "PullStatus",
    "PyroError",
    "QueryNotFound",
    "ReceivedMessage",
    "Refused",
    "RequestTimeout",
    "Selector",
    "SendCallback",
    "SendFailed",
    "SendResult",
    "SendStatus",
    "ServiceNotAvailable",
    "SystemBusy",
    "TooManyInFlight",
    "TopicNotFound",
    "select_by_hash",
]
