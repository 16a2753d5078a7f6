"""The words that one may choose among, where a setting takes only some."""

from enum import StrEnum


class FlushDiskType(StrEnum):
    """The flush mode: a send is answered after the disk has it, or at once."""

    SYNC_FLUSH = "SYNC_FLUSH"
    ASYNC_FLUSH = "ASYNC_FLUSH"


class BrokerRole(StrEnum):
    """The role of a broker in its group of replicas."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


class MetricsExporterType(StrEnum):
    """The metrics exporter: none, or Prometheus, which fetches; 5.x's others have no effect."""

    DISABLE = "DISABLE"
    PROM = "PROM"
    OTLP_GRPC = "OTLP_GRPC"
    LOG = "LOG"


class Compression(StrEnum):
    """The compression of a large body; LZ4 and ZSTD need a package (`pip install 'pyromq[lz4]'`)."""

    ZLIB = "ZLIB"
    LZ4 = "LZ4"
    ZSTD = "ZSTD"


class TlsServerMode(StrEnum):
    """The connections that a server takes: TLS, plain, or both on one port."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class TlsClientAuth(StrEnum):
    """The demand for a TLS client's certificate."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"


class MessageRequestMode(StrEnum):
    """The way the members of a group get a topic's messages: each pulls its own queues, or all pop."""

    PULL = "PULL"
    POP = "POP"
