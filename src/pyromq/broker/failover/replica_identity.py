"""The memory of a replica about itself, in its own folder: `config/replica.json`.

The mark tells this folder from any other, so that an emptied one is not taken for one that has all messages.
The port is kept for a broker that takes a free one: a replica is known by its address. With its broker id, a
replica can serve what it has while etcd cannot be asked, up to where it knew the log to be confirmed.

A replica is in *doubt* when its machine lost power, or its disk failed, while it acknowledged what only its
memory had: under asynchronous flush. It may lack what it acknowledged, and there is no way to see that. The
doubt is written down before the store is opened, which makes the traces of the crash go.
"""

import socket
import uuid
from contextlib import ExitStack
from pathlib import Path
from random import SystemRandom

import msgspec

from pyromq.broker.failover.group import ReplicaGroup
from pyromq.config.choices import FlushDiskType
from pyromq.config.settings import BrokerProcess
from pyromq.errors import ListenFailed
from pyromq.store.abort import FILE_NAME as ABORT_FILE
from pyromq.store.abort import AbortFile, Stop
from pyromq.store.atomic_file import read_with_backup, replace_file
from pyromq.store.files import Files, SystemFiles

_TRIES = 1_000
#: Below Linux's ports for connections (net.ipv4.ip_local_port_range), which begin at 32768.
_PORT_FIRST, _PORT_LAST = 23_000, 32_700


class ReplicaIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """One replica's; `broker_id` is 0 while it has none.

    `is_synced` says that it acknowledges only what its disk has. `confirmed` is up to where the log was known
    to be confirmed by the group at the last stop in order: nothing of that is ever cut off. `origin` is the
    id of the group in which the log here was begun: it was empty then, so all of it is that group's.
    """

    mark: str
    port: int
    broker_id: int = 0
    is_synced: bool = False
    is_in_doubt: bool = False
    confirmed: int = 0
    origin: str = ""

    def may_begin_again(self, group: ReplicaGroup) -> bool:
        """Return whether a log that has no epoch in common with the master's may go, for a copy of that.

        It may if all of it is of this group and no master ever lost anything: the master has what was
        acknowledged, so nothing here was. What came from elsewhere is its owner's to keep or remove.
        """
        is_own = bool(group.id) and self.origin == group.id
        return is_own and not self.confirmed and not group.may_lack


def load_identity(process: BrokerProcess, files: Files | None = None) -> ReplicaIdentity:
    """Return what the folder says, with the port of the settings if they say one; blocks.

    Raises CorruptRecord if the file does not read, ListenFailed if there is no free port.
    """
    known = read_with_backup(_path(process), msgspec.json.Decoder(ReplicaIdentity).decode, files=files)
    wanted = process.broker.listen_port
    if known is None:
        known = ReplicaIdentity(mark=uuid.uuid4().hex, port=wanted or _free_port(process))
        save_identity(process, known, files)
    known = look_back(process, known, files)
    return msgspec.structs.replace(known, port=wanted) if wanted else known


def look_back(process: BrokerProcess, known: ReplicaIdentity, files: Files | None = None) -> ReplicaIdentity:
    """Return it with the doubt that the last stop of the store left, and how it acknowledges now; blocks.

    To be called while the store is closed, before it is decided what this replica may become.
    """
    abort = AbortFile(files or SystemFiles(), Path(process.store.store_path_root_dir) / ABORT_FILE)
    has_lost = abort.last_stop() is Stop.CRASHED and not known.is_synced
    now = msgspec.structs.replace(
        known,
        is_synced=process.store.flush_disk_type == FlushDiskType.SYNC_FLUSH,
        is_in_doubt=known.is_in_doubt or has_lost,
    )
    if now != known:
        save_identity(process, now, files)
    return now


def save_identity(process: BrokerProcess, identity: ReplicaIdentity, files: Files | None = None) -> None:
    """Write it down; blocks."""
    replace_file(_path(process), msgspec.json.encode(identity), files=files)


def _path(process: BrokerProcess) -> Path:
    return Path(process.store.store_path_root_dir) / "config" / "replica.json"


def _free_port(process: BrokerProcess) -> int:
    """Return a port that is free, and the next one, where slaves connect, too.

    It is below the range from which the system gives ports to connections: the port for slaves is listened on
    only by a master, and somebody's connection could have it by then.
    """
    host, chance = process.broker.bind_address or "127.0.0.1", SystemRandom()
    for _ in range(_TRIES):
        port = chance.randrange(_PORT_FIRST, _PORT_LAST)
        wanted = (port,) if process.store.ha_listen_port else (port, port + 1)
        with ExitStack() as probes:
            try:
                for one in wanted:
                    probes.enter_context(socket.create_server((host, one)))
            except OSError:
                continue
            return port
    raise ListenFailed(f"no two free ports in a row on {host}; choose a listenPort")
