"""Connections of a probe to a broker, and the requests that it sends."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from pyromq.codes import Perm, PullFlag, RequestCode, ResponseCode
from pyromq.config.settings import NetSettings
from pyromq.errors import ConnectFailed, NetworkError
from pyromq.net.link import Link
from pyromq.net.links import Links
from pyromq.torture.stage import WorkloadUser
from pyromq.wire import properties
from pyromq.wire.batch import BatchUnit, encode_batch
from pyromq.wire.command import Command
from pyromq.wire.header import Header, write_header
from pyromq.wire.headers.pull_headers import PullMessage
from pyromq.wire.headers.send_headers import SendMessageV2
from pyromq.wire.headers.topic_headers import UpdateAndCreateTopic
from pyromq.wire.record import Record as LogRecord
from pyromq.wire.signature import signer

TOPIC = "t-probe"
QUEUES = 4
CONNECT_S_MAX = 1.0
NUMBER_DIGITS = 12
_BORN_AT_MS = 1_700_000_000_000
_PROPERTIES = properties.encode({"TAGS": "t"})


@dataclass(frozen=True, slots=True)
class ProbeConnection:
    """One connection to a broker; requests go in the order in which they were begun."""

    link: Link
    account: WorkloadUser | None

    @property
    def is_hung_up(self) -> bool:
        """Whether it has ended."""
        return self.link.closed

    def begin(
        self, code: int, header: Header, body: bytes = b"", *, timeout_s: float
    ) -> "asyncio.Task[Command]":
        """Send a request, and return what will be its answer."""
        command = Command(code, ext=write_header(header), body=body)
        if self.account is not None:
            signer(self.account.access_key, self.account.secret_key)(command)
        return asyncio.get_running_loop().create_task(self.link.request(command, timeout_s))


@contextlib.asynccontextmanager
async def connected(address: str, account: WorkloadUser | None) -> AsyncIterator[ProbeConnection]:
    """Connect for the block; raises NetworkError when nobody is there."""
    links = Links(NetSettings())
    try:
        link = await links.link(address, CONNECT_S_MAX)
        try:
            yield ProbeConnection(link, account)
        finally:
            link.abort()
    finally:
        await links.close()


def body_of(number: int, size: int) -> bytes:
    """Return the body of a message: its number, and a filling by which it is known again."""
    digits = b"%0*d" % (NUMBER_DIGITS, number)
    return digits + (digits * (size // NUMBER_DIGITS + 1))[:size]


def number_of(record: LogRecord) -> int | None:
    """Return a message's number; None when the body is none of ours."""
    digits = record.body[:NUMBER_DIGITS]
    if not digits.isdigit():
        return None
    number = int(digits)
    return number if record.body == body_of(number, len(record.body) - NUMBER_DIGITS) else None


def begin_send(
    connection: ProbeConnection, queue_id: int, bodies: list[bytes], timeout_s: float
) -> "asyncio.Task[Command]":
    """Send messages to a queue, several as a batch."""
    header = SendMessageV2(
        producer_group="p-probe",
        topic=TOPIC,
        default_topic="TBW102",
        default_topic_queue_nums=QUEUES,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=_BORN_AT_MS,
        flag=0,
        properties=_PROPERTIES,
        batch=len(bodies) > 1,
    )
    if len(bodies) == 1:
        return connection.begin(RequestCode.SEND_MESSAGE_V2, header, bodies[0], timeout_s=timeout_s)
    body = encode_batch(BatchUnit(0, one, _PROPERTIES) for one in bodies)
    return connection.begin(RequestCode.SEND_BATCH_MESSAGE, header, body, timeout_s=timeout_s)


def begin_pull(
    connection: ProbeConnection, queue_id: int, offset: int, *, is_held: bool, timeout_s: float
) -> "asyncio.Task[Command]":
    """Ask for the messages of a queue."""
    flags = PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if is_held else 0)
    header = PullMessage(
        consumer_group="g-probe",
        topic=TOPIC,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=2000,
        sys_flag=int(flags),
        commit_offset=0,
        suspend_timeout_millis=500,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )
    return connection.begin(RequestCode.PULL_MESSAGE, header, timeout_s=timeout_s)


async def make_topic(address: str, account: WorkloadUser | None) -> bool:
    """Ask a broker to make the topic; return whether it did."""
    header = UpdateAndCreateTopic(
        topic=TOPIC,
        default_topic="TBW102",
        read_queue_nums=QUEUES,
        write_queue_nums=QUEUES,
        perm=int(Perm.READ | Perm.WRITE),
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=0,
    )
    try:
        async with connected(address, account) as connection:
            answer = await connection.begin(RequestCode.UPDATE_AND_CREATE_TOPIC, header, timeout_s=2.0)
    except (NetworkError, ConnectFailed):
        return False
    return answer.code == ResponseCode.SUCCESS
