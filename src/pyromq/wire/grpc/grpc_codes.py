"""The codes of RocketMQ 5's gRPC protocol, the refusal that carries one, and which one a remoting code is."""

from enum import IntEnum
from typing import Final

from pyromq.codes import ResponseCode


class GrpcCode(IntEnum):
    """The codes of a `Status` that a server sends, and of those that a client sends back."""

    OK = 20000
    MULTIPLE_RESULTS = 30000
    BAD_REQUEST = 40000
    ILLEGAL_ACCESS_POINT = 40001
    ILLEGAL_TOPIC = 40002
    ILLEGAL_CONSUMER_GROUP = 40003
    ILLEGAL_MESSAGE_TAG = 40004
    ILLEGAL_MESSAGE_KEY = 40005
    ILLEGAL_MESSAGE_GROUP = 40006
    ILLEGAL_MESSAGE_PROPERTY_KEY = 40007
    INVALID_TRANSACTION_ID = 40008
    ILLEGAL_MESSAGE_ID = 40009
    ILLEGAL_FILTER_EXPRESSION = 40010
    ILLEGAL_INVISIBLE_TIME = 40011
    ILLEGAL_DELIVERY_TIME = 40012
    INVALID_RECEIPT_HANDLE = 40013
    MESSAGE_PROPERTY_CONFLICT_WITH_TYPE = 40014
    UNRECOGNIZED_CLIENT_TYPE = 40015
    MESSAGE_CORRUPTED = 40016
    CLIENT_ID_REQUIRED = 40017
    ILLEGAL_POLLING_TIME = 40018
    ILLEGAL_OFFSET = 40019
    ILLEGAL_LITE_TOPIC = 40020
    INVALID_CLIENT_PROPERTIES = 40021
    UNAUTHORIZED = 40100
    FORBIDDEN = 40300
    MESSAGE_NOT_FOUND = 40401
    TOPIC_NOT_FOUND = 40402
    CONSUMER_GROUP_NOT_FOUND = 40403
    OFFSET_NOT_FOUND = 40404
    MESSAGE_BODY_TOO_LARGE = 41301
    MESSAGE_BODY_EMPTY = 41302
    TOO_MANY_REQUESTS = 42900
    MESSAGE_PROPERTIES_TOO_LARGE = 43101
    INTERNAL_SERVER_ERROR = 50001
    HA_NOT_AVAILABLE = 50002
    NOT_IMPLEMENTED = 50100
    PROXY_TIMEOUT = 50400
    MASTER_PERSISTENCE_TIMEOUT = 50401
    SLAVE_PERSISTENCE_TIMEOUT = 50402
    FAILED_TO_CONSUME_MESSAGE = 60000


class GrpcRefused(Exception):
    """A request is not carried out; the status of its answer has the code and the text."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = int(code)
        self.text = text


#: What handlers of remoting answer, as a gRPC client is told it; anything else is INTERNAL_SERVER_ERROR.
_OF_REMOTING: Final[dict[int, GrpcCode]] = {
    ResponseCode.SUCCESS: GrpcCode.OK,
    ResponseCode.SYSTEM_BUSY: GrpcCode.TOO_MANY_REQUESTS,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: GrpcCode.NOT_IMPLEMENTED,
    ResponseCode.FLUSH_DISK_TIMEOUT: GrpcCode.MASTER_PERSISTENCE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: GrpcCode.HA_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: GrpcCode.SLAVE_PERSISTENCE_TIMEOUT,
    ResponseCode.TOPIC_NOT_EXIST: GrpcCode.TOPIC_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: GrpcCode.CONSUMER_GROUP_NOT_FOUND,
    ResponseCode.NO_PERMISSION: GrpcCode.FORBIDDEN,
    ResponseCode.FLOW_CONTROL: GrpcCode.TOO_MANY_REQUESTS,
}


def code_of_remoting(code: int) -> GrpcCode:
    """Return what a gRPC client is told for a code of remoting."""
    return _OF_REMOTING.get(code, GrpcCode.INTERNAL_SERVER_ERROR)
