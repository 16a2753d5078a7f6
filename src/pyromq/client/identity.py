"""The identity of a client: its id towards brokers, and the source of its messages' ids."""

import ipaddress
import os
import secrets
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyromq.config.settings import ClientSettings
from pyromq.kernel import IS_COMPILED

if TYPE_CHECKING or not IS_COMPILED:
    from pyromq.wire.message_id import UniqueIds
else:
    from pyromq._kernel.client.unique_ids import UniqueIds

DEFAULT_INSTANCE = "DEFAULT"


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """A client's id, and the process it was made in: a fork needs a new one, or ids would repeat."""

    client_id: str
    pid: int
    unique_ids: UniqueIds


def new_identity(settings: ClientSettings, *, keeps_instance: bool = False) -> ClientIdentity:
    """Return the identity of a client in this process.

    The id is `address@instance[@unit]`. The instance is a random number behind the process id unless it is
    given: in containers many clients have one address and the process id 1. One that `keeps_instance` is
    the same client when it comes back, which broadcasting consumers need.
    """
    pid = os.getpid()
    address = settings.client_ip or local_address()
    instance = settings.instance_name
    if instance == DEFAULT_INSTANCE and not keeps_instance:
        instance = f"{pid}#{secrets.randbits(63)}"
    client_id = "@".join(filter(None, (address, instance, settings.unit_name)))
    return ClientIdentity(client_id, pid, UniqueIds(_as_ip(address), pid, secrets.randbits(32)))


def _as_ip(address: str) -> str:
    """Return an address that fits into a message's id; a client may be given a host's name."""
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return local_address()


def local_address() -> str:
    """Return the address that this machine sends from, or the loopback one when it has no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Connecting a datagram socket sends nothing; it only makes the system choose a route.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        address: str = probe.getsockname()[0]
    return address
