"""Whether a broker opens a port for gRPC, and what it says when it does not.

Everything that gRPC needs is imported here and not before: a broker without it is as small as it was.
"""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyromq.broker.grpc.grpc_rooms import GrpcRooms
from pyromq.config.grpc_settings import DEFAULT_GRPC_PORT, GrpcOpening, GrpcSettings
from pyromq.errors import ConfigError, ListenFailed

if TYPE_CHECKING:
    from pyromq.broker.grpc.grpc_door import GrpcDoor

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenedGrpc:
    """The door that is open, or why there is none."""

    door: "GrpcDoor | None" = None
    #: What whoever starts the broker is told; None where nobody wanted a door.
    why_not: str | None = None

    @property
    def address(self) -> str | None:
        """The address that SDKs are told; None where there is no door."""
        return None if self.door is None else self.door.address

    @property
    def port(self) -> int:
        """The port that is listened on; 0 where there is no door."""
        return 0 if self.door is None else self.door.port


async def open_grpc(settings: GrpcSettings, opening: GrpcOpening, rooms: GrpcRooms, host: str) -> OpenedGrpc:
    """Open the port of the settings, if it is to be opened.

    Raises ListenFailed or ConfigError when it cannot be, and somebody asked for it.
    """
    port = settings.grpc_server_port
    is_default = port == DEFAULT_GRPC_PORT
    if not port or (is_default and opening is GrpcOpening.IF_NAMED):
        return OpenedGrpc()
    may_fail = is_default and opening is GrpcOpening.IF_FREE
    try:
        from pyromq.broker.grpc.grpc_door import GrpcDoor

        door = GrpcDoor(rooms)
        await door.start(host, port)
    except (ConfigError, ListenFailed, ModuleNotFoundError) as error:
        why = _why(error, port)
        if not may_fail:
            raise (ListenFailed if isinstance(error, ListenFailed) else ConfigError)(why) from error
        log.warning("%s", why)
        return OpenedGrpc(why_not=why)
    return OpenedGrpc(door)


def _why(error: Exception, port: int) -> str:
    if isinstance(error, ImportError):
        return (
            f"RocketMQ 5's SDKs cannot connect: {error}; pip install 'pyromq[grpc]', or set grpcServerPort=0"
        )
    if isinstance(error, ListenFailed):
        return (
            f"RocketMQ 5's SDKs cannot connect: port {port} is taken; set grpcServerPort to another, or to 0"
        )
    return str(error)
