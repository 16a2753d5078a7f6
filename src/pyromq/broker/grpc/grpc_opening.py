"""Whether a broker opens a port for gRPC, and what it says when it does not."""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyromq.broker.grpc.grpc_port import GrpcPort
from pyromq.broker.grpc.grpc_rooms import GrpcRooms
from pyromq.config.grpc_settings import DEFAULT_GRPC_PORT, GrpcOpening, GrpcSettings
from pyromq.errors import ConfigError, ListenFailed

if TYPE_CHECKING:
    from pyromq.broker.grpc.grpc_door import GrpcDoor

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenedGrpc:
    """The port that is open, or why there is none."""

    at: GrpcPort | None = None
    #: What whoever starts the broker is told; None where nobody wanted a port.
    why_closed: str | None = None

    @property
    def door(self) -> "GrpcDoor | None":
        """The services behind the port; None before the first connection."""
        return None if self.at is None else self.at.door

    @property
    def why_not(self) -> str | None:
        """The reason why SDKs cannot connect where somebody wants it, None where they can."""
        return self.why_closed if self.at is None else self.at.why_not

    @property
    def address(self) -> str | None:
        """The address that SDKs are told; None where there is no port, or connections are closed."""
        return None if self.at is None or self.at.why_not is not None else self.at.address

    @property
    def port(self) -> int:
        """The port that is listened on; 0 where there is none."""
        return 0 if self.at is None else self.at.port


def open_grpc(settings: GrpcSettings, opening: GrpcOpening, rooms: GrpcRooms, host: str) -> OpenedGrpc:
    """Open the port of the settings, if it is to be opened.

    Raises ListenFailed or ConfigError when it cannot be, and somebody asked for it.
    """
    port = settings.grpc_server_port
    is_default = port == DEFAULT_GRPC_PORT
    if not port or (is_default and opening is GrpcOpening.IF_NAMED):
        return OpenedGrpc()
    may_fail = is_default and opening is GrpcOpening.IF_FREE
    try:
        at = GrpcPort(rooms, host, port)
    except (ConfigError, ListenFailed) as error:
        why = _why(error, port)
        if not may_fail:
            raise (ListenFailed if isinstance(error, ListenFailed) else ConfigError)(why) from error
        log.warning("%s", why)
        return OpenedGrpc(why_closed=why)
    return OpenedGrpc(at)


def _why(error: Exception, port: int) -> str:
    if isinstance(error, ListenFailed):
        return (
            f"RocketMQ 5's SDKs cannot connect: port {port} is taken; set grpcServerPort to another, or to 0"
        )
    return str(error)
