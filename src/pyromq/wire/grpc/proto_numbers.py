"""The numbers of the protocol's enums that servers look at; fields with them stay plain numbers."""

from enum import IntEnum


class MessageType(IntEnum):
    """The kind of a message, and what a topic accepts."""

    UNSPECIFIED = 0
    NORMAL = 1
    FIFO = 2
    DELAY = 3
    TRANSACTION = 4
    LITE = 5
    PRIORITY = 6


class QueuePermission(IntEnum):
    """The permission on a queue."""

    NONE = 1
    READ = 2
    WRITE = 3
    READ_WRITE = 4


class FilterType(IntEnum):
    """The language of a filter expression; 0 is taken as TAG."""

    UNSPECIFIED = 0
    TAG = 1
    SQL = 2


class AddressScheme(IntEnum):
    """The kind of the addresses of an endpoint."""

    IPV4 = 1
    IPV6 = 2
    DOMAIN_NAME = 3


class DigestType(IntEnum):
    """The kind of a digest."""

    CRC32 = 1
    MD5 = 2
    SHA1 = 3


class ClientType(IntEnum):
    """The kind of a client."""

    UNSPECIFIED = 0
    PRODUCER = 1
    PUSH_CONSUMER = 2
    SIMPLE_CONSUMER = 3
    PULL_CONSUMER = 4
    LITE_PUSH_CONSUMER = 5
    LITE_SIMPLE_CONSUMER = 6


class Encoding(IntEnum):
    """The encoding of a body."""

    IDENTITY = 1
    GZIP = 2


class Resolution(IntEnum):
    """The fate of a transaction; 0 is not known yet."""

    UNSPECIFIED = 0
    COMMIT = 1
    ROLLBACK = 2


class OffsetPolicy(IntEnum):
    """The offset of a queue that is asked for."""

    BEGINNING = 0
    END = 1
    TIMESTAMP = 2
