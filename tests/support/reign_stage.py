"""A master that was elected, with its lease, its disk and its replica in the test's hands; and every write.

Nobody is asked at etcd: the broker is given the standing that an election would give it. Time is moved by
hand, so the lease ends when the test says so. The replica is a follower that acknowledges what the test says.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from kinds_stage import HOUR_MS, ManualStage, Peer
from staged_batches import units
from staged_files import StagedFiles

from pyromq.broker.durability.acknowledgement import Lease
from pyromq.broker.replication.followers import Followers
from pyromq.broker.replication.role import Leading
from pyromq.broker.replication.standing import Standing
from pyromq.codes import RequestCode, ResponseCode, SysFlag
from pyromq.errors import NetworkError
from pyromq.store.files import File, SystemFile
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import batch_body, send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.wire import properties as names
from pyromq.wire.command import Command
from pyromq.wire.message_id import parse_offset_message_id

LEASE_S: Final = 3
REPLICA_ID: Final = 2
BROKER: Final = "broker-a"

FLUSHES: Final = ("ASYNC_FLUSH", "SYNC_FLUSH")
ROLES: Final = ("ASYNC_MASTER", "SYNC_MASTER")

#: A write that is ready to be made: everything that it needs is there, and safe.
Write = Callable[[], Awaitable[Command]]
#: Brings a write about, by a client.
Kind = Callable[["ReignStage", Peer], Awaitable[Write]]


class LogFiles(StagedFiles):
    """Files that tell of the next write to the log, in the midst of it."""

    def __init__(self) -> None:
        super().__init__()
        self.on_log_write: Callable[[], None] | None = None

    def open(self, path: Path, size: int) -> File:
        """Open a file."""
        self.note("open", path)
        return _LogFile(self, path, size)

    def wrote(self, path: Path) -> None:
        """Tell of a write, once."""
        if path.parent.name == "commitlog" and self.on_log_write is not None:
            told, self.on_log_write = self.on_log_write, None
            told()


class _LogFile(SystemFile):
    def __init__(self, stage: LogFiles, path: Path, size: int) -> None:
        super().__init__(path, size)
        self._stage = stage

    def write(self, data: bytes | bytearray, at: int) -> None:
        super().write(data, at)
        self._stage.wrote(self.path)

    def sync(self) -> None:
        self._stage.begin_sync(self.path)
        super().sync()


class ReignStage(ManualStage):
    """The master. Its in-sync set has nobody else, until `wait_for_replica`."""

    def __init__(self, folder: Path, *, role: str, flush: str, **settings: object) -> None:
        clock, self.files = ManualClock(), LogFiles()
        self.lease = Lease(clock.monotonic, clock.monotonic() + LEASE_S)
        super().__init__(
            folder,
            clock,
            files=self.files,
            standing=Standing(epoch=1, lease=self.lease, in_sync=frozenset()),
            broker_name=BROKER,
            broker_role=role,
            failover="etcd://127.0.0.1:1",
            flush_disk_type=flush,
            slave_timeout=80,
            **settings,
        )

    @property
    def followers(self) -> Followers:
        """Who follows."""
        assert isinstance(self.broker.replicating, Leading)
        return self.broker.replicating.followers

    def wait_for_replica(self) -> None:
        """Let a replica be in sync that has all until now, and gets nothing more."""
        self.replica_has_all()
        self.followers.in_sync = frozenset({REPLICA_ID})

    def replica_has_all(self) -> None:
        """Let the replica acknowledge all that is in the log now."""
        self.followers.acknowledged(
            self.followers.connected("10.0.0.2:1", REPLICA_ID), self.broker.max_position
        )

    def end_lease(self) -> None:
        """Let the time of the lease pass."""
        self.clock.advance(LEASE_S * 1_000)

    async def grown(self, write: "asyncio.Task[Command]", before: int) -> None:
        """Return when a write is in the log."""
        await aeventually(lambda: self.broker.max_position > before or write.done(), what="it is written")


async def outcome(write: Awaitable[Command]) -> int | None:
    """Return the code of an answer, None when the connection ended instead."""
    try:
        return (await write).code
    except NetworkError:
        return None


@asynccontextmanager
async def reign_of(folder: Path, *, role: str, flush: str, **settings: object) -> AsyncIterator[ReignStage]:
    """Run a master, with a topic that has messages in its queue."""
    stage = ReignStage(folder, role=role, flush=flush, **settings)
    await stage.start()
    try:
        first = await stage.connect("first").send("orders")
        assert first.code == ResponseCode.SUCCESS, first.remark
        yield stage
    finally:
        await stage.close()


# Every kind of write


async def _send(_stage: ReignStage, client: Peer) -> Write:
    return lambda: client.send("orders")


async def _send_by_shortcut(_stage: ReignStage, client: Peer) -> Write:
    """The kernel knows the queue after the first message of its kind."""

    def write() -> Awaitable[Command]:
        return client.request(RequestCode.SEND_MESSAGE_V2, send_v2_fields("orders"), body=b"hello")

    await good(write())
    return write


async def _send_to_new_topic(_stage: ReignStage, client: Peer) -> Write:
    return lambda: client.send("fresh")


async def _batch(_stage: ReignStage, client: Peer) -> Write:
    fields = send_v2_fields("orders", batch=True)
    return lambda: client.request(RequestCode.SEND_BATCH_MESSAGE, fields, body=batch_body([b"one", b"two"]))


async def _delayed(_stage: ReignStage, client: Peer) -> Write:
    return lambda: client.send("orders", properties={names.DELAY: "3"})


async def _timed(_stage: ReignStage, client: Peer) -> Write:
    return lambda: client.send("orders", properties={"TIMER_DELAY_MS": str(HOUR_MS)})


async def _recall(_stage: ReignStage, client: Peer) -> Write:
    sent = await good(client.send("orders", properties={"TIMER_DELAY_MS": str(HOUR_MS)}))
    fields = {"producerGroup": "g", "topic": "orders", "recallHandle": (sent.ext or {})["recallHandle"]}
    return lambda: client.request(RequestCode.RECALL_MESSAGE, fields)


def _send_half(client: Peer) -> Awaitable[Command]:
    properties = {names.TRANSACTION_PREPARED: "true", names.PRODUCER_GROUP: "payers"}
    return client.send("orders", properties=properties, sys_flag=int(SysFlag.TRANSACTION_PREPARED))


async def _half(_stage: ReignStage, client: Peer) -> Write:
    return lambda: _send_half(client)


async def _end_transaction(_stage: ReignStage, client: Peer) -> Write:
    ext = (await good(_send_half(client))).ext or {}
    fields = {
        "producerGroup": "payers",
        "tranStateTableOffset": ext["queueOffset"],
        "commitLogOffset": parse_offset_message_id(ext["msgId"]).position,
        "commitOrRollback": int(SysFlag.TRANSACTION_COMMIT),
        "msgId": "ID",
    }
    return lambda: client.request(RequestCode.END_TRANSACTION, fields)


async def _resume_check(_stage: ReignStage, client: Peer) -> Write:
    ext = (await good(_send_half(client))).ext or {}
    return lambda: client.request(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": ext["msgId"]})


async def _send_back(_stage: ReignStage, client: Peer) -> Write:
    await client.heartbeat(consumer="readers")
    sent = (await good(client.send("orders"))).ext or {}
    fields = {
        "offset": parse_offset_message_id(sent["msgId"]).position,
        "group": "readers",
        "delayLevel": 0,
        "originMsgId": sent["msgId"],
        "originTopic": "orders",
        "unitMode": False,
        "maxReconsumeTimes": 16,
    }
    return lambda: client.request(RequestCode.CONSUMER_SEND_MSG_BACK, fields)


async def _reply(_stage: ReignStage, client: Peer) -> Write:
    await client.heartbeat(producer="askers")
    properties = {names.REPLY_TO_CLIENT: client.client_id, names.CORRELATION_ID: "c-1"}
    fields = send_v2_fields("DefaultCluster_REPLY_TOPIC", properties=properties)
    return lambda: client.request(RequestCode.SEND_REPLY_MESSAGE_V2, fields, body=b"yes")


_BATCH: Final = {"query": "q", "batch": 0, "home": BROKER}
_CHUNK: Final = _BATCH | {
    "part": 0, "attempt": "x", "sequence": 0, "topic": "orders", "queueId": 0, "bornTimestamp": 1,
}  # fmt: skip
_PARTS: Final = json.dumps({"parts": [{"part": 0, "attempt": "x", "chunks": {BROKER: 1}}]}).encode()


async def _open_staged(_stage: ReignStage, client: Peer) -> Write:
    return lambda: client.request(RequestCode.OPEN_STAGED_BATCH, _BATCH)


async def _stage_chunk(stage: ReignStage, client: Peer) -> Write:
    await good((await _open_staged(stage, client))())
    return lambda: client.request(RequestCode.STAGE_MESSAGES, _CHUNK, body=units(["a", "b"]))


async def _publish(stage: ReignStage, client: Peer) -> Write:
    await good((await _stage_chunk(stage, client))())
    return lambda: client.request(RequestCode.PUBLISH_STAGED, _BATCH, body=_PARTS)


async def _prepare(stage: ReignStage, client: Peer) -> Write:
    await good((await _stage_chunk(stage, client))())
    fields = _BATCH | {"step": "prepare"}
    return lambda: client.request(RequestCode.PUBLISH_STAGED, fields, body=_PARTS)


async def _complete(stage: ReignStage, client: Peer) -> Write:
    await good((await _stage_chunk(stage, client))())
    elsewhere = {"part": 1, "attempt": "x", "chunks": {"broker-b": 1}}
    body = json.dumps({"parts": [json.loads(_PARTS)["parts"][0], elsewhere]}).encode()
    await good(client.request(RequestCode.PUBLISH_STAGED, _BATCH, body=body))
    return lambda: client.request(RequestCode.PUBLISH_STAGED, _BATCH | {"step": "complete"}, body=b"")


async def _abort(stage: ReignStage, client: Peer) -> Write:
    await good((await _stage_chunk(stage, client))())
    return lambda: client.request(RequestCode.ABORT_STAGED, _BATCH, body=_PARTS)


async def good(asked: Awaitable[Command]) -> Command:
    """Return an answer that is a success."""
    answer = await asked
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer


KINDS: Final[dict[str, Kind]] = {
    "send": _send,
    "send by the kernel's shortcut": _send_by_shortcut,
    "send to a new topic": _send_to_new_topic,
    "batch": _batch,
    "delayed": _delayed,
    "timed": _timed,
    "recall": _recall,
    "half": _half,
    "end of a transaction": _end_transaction,
    "resumed check": _resume_check,
    "send back": _send_back,
    "reply": _reply,
    "open a staged batch": _open_staged,
    "stage": _stage_chunk,
    "prepare": _prepare,
    "publish": _publish,
    "complete": _complete,
    "abort": _abort,
}
