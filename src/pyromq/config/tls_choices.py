"""What one may choose of TLS."""

from enum import StrEnum


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
