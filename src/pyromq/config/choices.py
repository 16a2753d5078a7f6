"""The words that one may choose among, where a setting takes only some."""

from enum import StrEnum


class FlushDiskType(StrEnum):
    """When a send is answered: after the disk has it, or at once."""

    SYNC_FLUSH = "SYNC_FLUSH"
    ASYNC_FLUSH = "ASYNC_FLUSH"


class BrokerRole(StrEnum):
    """What a broker is in its group of replicas."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


class MetricsExporterType(StrEnum):
    """How metrics leave the broker: not at all, or fetched by Prometheus; 5.x's others have no effect."""

    DISABLE = "DISABLE"
    PROM = "PROM"
    OTLP_GRPC = "OTLP_GRPC"
    LOG = "LOG"


class Compression(StrEnum):
    """How a large body is compressed; LZ4 and ZSTD need a package (`pip install 'pyromq[lz4]'`)."""

    ZLIB = "ZLIB"
    LZ4 = "LZ4"
    ZSTD = "ZSTD"


class TlsServerMode(StrEnum):
    """Whether a server takes TLS connections, plain ones, or both on one port."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class TlsClientAuth(StrEnum):
    """Whether a TLS client is asked for a certificate."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"
