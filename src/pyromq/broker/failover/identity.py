"""What a replica remembers of itself, in its own folder: `config/replica.json`.

The mark tells this folder from any other, so that an emptied one is not taken for one that has all messages.
The port is kept for a broker that takes a free one: a replica is known by its address. With its broker id, a
replica can serve what it has while etcd cannot be asked.
"""

import socket
import uuid
from pathlib import Path

import msgspec

from pyromq.config.settings import BrokerProcess
from pyromq.errors import ListenFailed
from pyromq.store.atomic_file import read_with_backup, replace_file

_TRIES = 100


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """One replica's; `broker_id` is 0 while it has none."""

    mark: str
    port: int
    broker_id: int = 0


def load_identity(process: BrokerProcess) -> Identity:
    """Return what the folder says, with the port of the settings if they say one; blocks.

    Raises CorruptRecord if the file does not read, ListenFailed if there is no free port.
    """
    known = read_with_backup(_path(process), msgspec.json.Decoder(Identity).decode)
    wanted = process.broker.listen_port
    if known is None:
        known = Identity(mark=uuid.uuid4().hex, port=wanted or _free_port(process))
        save_identity(process, known)
    return msgspec.structs.replace(known, port=wanted) if wanted else known


def save_identity(process: BrokerProcess, identity: Identity) -> None:
    """Write it down; blocks."""
    replace_file(_path(process), msgspec.json.encode(identity))


def _path(process: BrokerProcess) -> Path:
    return Path(process.store.store_path_root_dir) / "config" / "replica.json"


def _free_port(process: BrokerProcess) -> int:
    """Return a port that is free, and the next one, where slaves connect, too."""
    host = process.broker.bind_address
    for _ in range(_TRIES):
        with socket.create_server((host, 0)) as probe:
            port: int = probe.getsockname()[1]
            if process.store.ha_listen_port:
                return port
            try:
                with socket.create_server((host, port + 1)):
                    return port
            except (OSError, OverflowError):
                continue
    raise ListenFailed(f"no two free ports in a row on {host}; choose a listenPort")
