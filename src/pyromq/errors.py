"""The error tree.

    PyroError
    ├── ConfigError            a setting is wrong; nothing starts; exit status 2
    │   └── NoNameServerKnown     nothing says where the name servers are
    ├── ListenFailed           a server's port is taken, or its address is not this machine's
    ├── ProtocolError          bytes that mean nothing
    │   ├── LocalProtocolError    we were asked to send what the protocol forbids
    │   ├── RemoteProtocolError   the peer did; the connection ends
    │   └── HeaderError           a frame is whole, but a field is missing or unreadable; answered by name
    │       └── BodyError            the same of its body
    ├── Refused(code, remark)  a server said no
    │   ├── TopicNotFound  NoPermission  SystemBusy  MessageIllegal  …
    │   ├── ServiceNotAvailable   takes no messages now; NotMaster: because it is not the master
    │   └── PopUnsupported  HandleExpired   of POP: the broker does not know it; a message is others' by now
    ├── NoRoute                no name server knows a broker for the topic
    │   ├── UnknownTopic          no name server knows the topic
    │   └── NoMaster              only slaves are there, and take no messages
    ├── SendFailed             every try of a send failed; the last failure is its cause
    ├── TooManyInFlight        this client has as many requests under way as it may
    ├── NetworkError           no answer: ConnectFailed  ConnectionLost  RequestTimeout
    │   ├── TlsFailed             the server is there; its certificate, or that there is TLS at all, is wrong
    │   └── NoReply               to a request that is stored
    ├── EtcdFailed             etcd, which decides who is master, did not answer or refused
    ├── NotThere               what an operator asks for is not in the cluster
    ├── SearchIncomplete       a broker's index cannot tell all that it should find
    ├── StagedSendsUnsupported a broker cannot publish a batch as a whole
    ├── ClientClosed           used after close
    ├── AlreadyStarted         started twice
    ├── FilterError            a SQL filter that cannot be understood, with the place and the cause
    ├── BodyTooLarge           a compressed body grows beyond what this client unpacks
    ├── BeingProcessed         another is at work on the same business key
    ├── NoBusinessKey          a message does not say which business it is about
    └── StoreError             CorruptRecord  DiskFull  SyncFailed  StoreLocked  MessageTooLarge

Two flags say who can mend it, and the client's plans read them: `retriable` (another broker or a later try
may do) and `stale_route` (ask the name server first).
"""

from typing import ClassVar, Final

from pyromq.codes import ClientCode, ResponseCode

#: How a broker with access control says no, with SYSTEM_ERROR. RocketMQ 4.9: PlainPermissionManager.java
ACCESS_MARK: Final = "AclException"


class PyroError(Exception):
    """The root of all errors that this package raises on purpose."""

    retriable: ClassVar[bool] = False
    stale_route: ClassVar[bool] = False


class NotThere(PyroError):
    """The thing that an operator asks for is not in the cluster."""


class SearchIncomplete(PyroError):
    """A broker's index has more entries for a question than it can tell apart."""


class ConfigError(PyroError):
    """A setting is wrong. The message names the source, the key, and the nearest known key or the reason."""


class NoNameServerKnown(ConfigError):
    """A client was told no name server: neither by an argument, nor by a setting or the environment."""

    code: int = ClientCode.NO_NAME_SERVER


class ListenFailed(PyroError):
    """A server cannot listen on its address."""


class ProtocolError(PyroError):
    """Bytes or fields that the protocol does not allow."""


class LocalProtocolError(ProtocolError):
    """We were asked to send what the protocol forbids."""


class RemoteProtocolError(ProtocolError):
    """The peer sent what the protocol forbids; the connection cannot go on."""


class HeaderError(ProtocolError):
    """A frame is whole, but one of its fields is missing or does not read."""


class BodyError(HeaderError):
    """A frame is whole, but its body does not read."""


class Refused(PyroError):
    """A server said no, with one of RocketMQ's codes and the reason."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(f"{_code_name(code)}: {remark}")
        self.code = code
        self.remark = remark

    @property
    def is_denied(self) -> bool:
        """Whether access control says no, or a permission; asking again changes nothing."""
        return isinstance(self, NoPermission) or ACCESS_MARK in (self.remark or "")


class ServerFailed(Refused):
    """SYSTEM_ERROR: the server could not do it, and the remark says why."""

    retriable = True


class SystemBusy(Refused):
    """SYSTEM_BUSY: the server has too much to do."""


class MessageIllegal(Refused):
    """MESSAGE_ILLEGAL: the message itself breaks a rule, wherever it is sent."""


class ServiceNotAvailable(Refused):
    """SERVICE_NOT_AVAILABLE: this server takes no messages now; it may not be the master any more."""

    retriable = True
    stale_route = True


class NotMaster(ServiceNotAvailable):
    """SERVICE_NOT_AVAILABLE of a broker that says that it is not the master of its group, or no longer.

    Brokers of PyroMQ say so, by these words of their remark; RocketMQ's do not give a reason.
    """

    NO_LONGER: ClassVar[str] = "this broker is no longer the master of its group"
    SLAVE: ClassVar[str] = "this broker is a slave"


class EndsUnknown(ServiceNotAvailable):
    """SERVICE_NOT_AVAILABLE of a replica that does not know yet which of its messages are confirmed."""


class NoPermission(Refused):
    """NO_PERMISSION: the broker or the topic does not allow it."""

    retriable = True


class TopicNotFound(Refused):
    """TOPIC_NOT_EXIST: the server does not know the topic."""

    retriable = True
    stale_route = True


class WrongUnit(Refused):
    """NO_BUYER_ID or NOT_IN_CURRENT_UNIT: the message belongs to another unit's brokers."""

    retriable = True


class QueryNotFound(Refused):
    """QUERY_NOT_FOUND: nothing is stored under that question."""


class PopUnsupported(Refused):
    """A broker does not know POP; those of RocketMQ 4 do not."""


class HandleExpired(Refused):
    """A popped message is not this consumer's any more: its time is over, or it was ended."""


class IllegalOperation(Refused):
    """ILLEGAL_OPERATION: what it is about is in no state for that; a recall finds nothing that waits."""


class NoNameServer(Refused):
    """REQUEST_CODE_NOT_SUPPORTED to what every name server knows: the address is another server's."""


class NoRoute(PyroError):
    """No name server knows a broker for the topic."""

    code: int = ClientCode.NO_ROUTE
    stale_route = True


class UnknownTopic(NoRoute):
    """No name server knows the topic, so there is nothing to read, and nobody who would create it."""

    def __init__(self, text: str, *, topic: str, name_servers: str, is_any_broker_known: bool = True) -> None:
        super().__init__(text)
        self.topic = topic
        self.name_servers = name_servers
        #: False when the name servers know no broker at all: the topic's may be away for a while.
        self.is_any_broker_known = is_any_broker_known


class NoMaster(NoRoute):
    """The brokers of the topic have no master now; one that was lost is being replaced, or comes back."""


class SendFailed(PyroError):
    """Every try of a send failed; `__cause__` is the last failure, and the brokers are named in order."""

    def __init__(self, text: str, *, code: int, brokers: tuple[str, ...]) -> None:
        super().__init__(text)
        self.code = code
        self.brokers = brokers


class TooManyInFlight(PyroError):
    """This client has as many requests under way as it may."""

    retriable = True


class StagedSendsUnsupported(PyroError):
    """The brokers know no staged sends, which are PyroMQ's own: a batch cannot be published as a whole."""


class NetworkError(PyroError):
    """No answer came. `code` is the number of RocketMQ's clients for that."""

    code: int = ClientCode.CONNECT_FAILED
    retriable = True
    stale_route = True


class ConnectFailed(NetworkError):
    """No connection could be made."""


class TlsFailed(ConnectFailed):
    """The server is there, but TLS with it failed, or was not tried where it takes nothing else."""


class ConnectionLost(NetworkError):
    """The connection ended before the answer came."""


class RequestTimeout(NetworkError):
    """The answer did not come in time."""

    code: int = ClientCode.TIMED_OUT


class NoReply(RequestTimeout):
    """A request is stored, and nobody replied to it in time."""

    code: int = ClientCode.NO_REPLY


class EtcdFailed(PyroError):
    """etcd did not answer, or refused. `may_be_done` says that a change may have been made all the same."""

    def __init__(self, text: str, *, may_be_done: bool = False) -> None:
        super().__init__(text)
        self.may_be_done = may_be_done


class ClientClosed(PyroError):
    """A client was used before it was started or after it was closed."""


class AlreadyStarted(PyroError):
    """A client was started a second time."""


class FilterError(PyroError):
    """A SQL filter cannot be understood. `position` counts the characters before the place."""

    def __init__(self, cause: str, position: int) -> None:
        super().__init__(f"Invalid MessageSelector. At character {position + 1}: {cause}")
        self.cause = cause
        self.position = position


class BodyTooLarge(PyroError):
    """A compressed body grows beyond `decompressed_bytes_max` of the client that was to unpack it."""


class BeingProcessed(PyroError):
    """Another consumer is at work on the same business key; the message is to come again."""

    retriable = True


class NoBusinessKey(PyroError):
    """A message does not say which business it is about, so that a duplicate cannot be told."""


class StoreError(PyroError):
    """The store cannot do it."""


class CorruptRecord(StoreError):
    """Bytes on disk that are not the record that should be there."""


class DiskFull(StoreError):
    """There is no room for the message, or the disk is fuller than the settings allow."""


class SyncFailed(StoreError):
    """A sync failed; what is on disk is unknown, so nothing is written until a restart."""


class StoreLocked(StoreError):
    """Another process has the store open."""


class MessageTooLarge(StoreError):
    """The encoded message is larger than `maxMessageSize` allows, or its properties than 32,767 bytes."""


_BY_CODE: dict[int, type[Refused]] = {
    ResponseCode.SYSTEM_ERROR: ServerFailed,
    ResponseCode.SYSTEM_BUSY: SystemBusy,
    ResponseCode.MESSAGE_ILLEGAL: MessageIllegal,
    ResponseCode.SERVICE_NOT_AVAILABLE: ServiceNotAvailable,
    ResponseCode.NO_PERMISSION: NoPermission,
    ResponseCode.TOPIC_NOT_EXIST: TopicNotFound,
    ResponseCode.QUERY_NOT_FOUND: QueryNotFound,
    ResponseCode.ILLEGAL_OPERATION: IllegalOperation,
    ResponseCode.NO_BUYER_ID: WrongUnit,
    ResponseCode.NOT_IN_CURRENT_UNIT: WrongUnit,
}


_CODE_NAMES: dict[int, str] = {code.value: code.name for code in (*ResponseCode, *ClientCode)}


def refusal(code: int, remark: str | None) -> Refused:
    """Return the error for a server's answer that is not a success."""
    if code == ResponseCode.SERVICE_NOT_AVAILABLE and remark and _says_not_master(remark):
        return NotMaster(code, remark)
    return _BY_CODE.get(code, Refused)(code, remark or "the server gave no reason")


def _says_not_master(remark: str) -> bool:
    return NotMaster.NO_LONGER in remark or NotMaster.SLAVE in remark


def _code_name(code: int) -> str:
    name = _CODE_NAMES.get(code)
    return f"code {code}" if name is None else f"{name} ({code})"
