"""Requests that a bench makes besides its load: topics, clients that do nothing, positions of messages."""

import resource
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Final

from pyromq.bench.frames import GROUP, OPAQUE_FIRST, Queue
from pyromq.codes import Perm, PullFlag, RequestCode, ResponseCode
from pyromq.errors import ConfigError, ConnectionLost, Refused, refusal
from pyromq.net.address import split_address
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart, Heartbeat, Subscription, encode_heartbeat
from pyromq.wire.command import Command, CommandReader, encode
from pyromq.wire.header import write_header
from pyromq.wire.headers.pull_headers import PullMessage
from pyromq.wire.headers.topic_headers import UpdateAndCreateTopic
from pyromq.wire.record import iter_records
from pyromq.wire.signature import Sign

TIMEOUT_S: Final = 60.0
_RECEIVE_BYTES: Final = 1 << 16
_PULLED: Final = 32


def allow_files(count: int) -> None:
    """Have the system let this process open so many files; raise ConfigError when it does not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= count:
        return
    if hard != resource.RLIM_INFINITY and hard < count:
        raise ConfigError(f"{count:,} open files are needed and {hard:,} allowed: see ulimit -n")
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def open_idle(address: str, count: int, *, topics: Sequence[str], groups: int) -> list[socket.socket]:
    """Open connections whose clients say once that they are in a group, and then nothing."""
    connections = []
    for number in range(count):
        connection = socket.create_connection(split_address(address), TIMEOUT_S)
        connections.append(connection)
        if not groups:
            continue
        topic = topics[number % len(topics)]
        part = ConsumerPart(
            group_name=f"idle-group-{number % groups}", subscriptions=[Subscription(topic=topic)]
        )
        heartbeat = Heartbeat(client_id=f"127.0.0.1@{number}", consumers=[part])
        exchange(connection, [Command(RequestCode.HEART_BEAT, body=encode_heartbeat(heartbeat))])
    return connections


def positions_of(queues: Sequence[Queue]) -> list[int]:
    """Return where in their broker's log the first messages of some queues are: one pull's of each."""
    found: list[int] = []
    with socket.create_connection(split_address(queues[0].address), TIMEOUT_S) as connection:
        for queue in queues:
            place = {"topic": queue.topic, "queueId": str(queue.queue_id)}
            [first] = exchange(connection, [Command(RequestCode.GET_MIN_OFFSET, ext=place)])
            header = PullMessage(
                consumer_group=GROUP,
                topic=queue.topic,
                queue_id=queue.queue_id,
                queue_offset=int((first.ext or {})["offset"]),
                max_msg_nums=_PULLED,
                sys_flag=int(PullFlag.SUBSCRIPTION),
                commit_offset=0,
                suspend_timeout_millis=0,
                subscription="*",
                sub_version=0,
                expression_type="TAG",
            )
            try:
                [answer] = exchange(connection, [Command(RequestCode.PULL_MESSAGE, ext=write_header(header))])
            except Refused as error:
                if error.code != ResponseCode.PULL_NOT_FOUND:
                    raise
                continue
            found += [record.position for record in iter_records(answer.body)]
    if not found:
        raise ConfigError(f"the topic {queues[0].topic} has no messages that could be sent back: send some")
    return found


def creation(topic: str, queues: int) -> Command:
    """Return the request that creates a topic, or gives it more queues."""
    header = UpdateAndCreateTopic(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=int(Perm.READ | Perm.WRITE),
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=0,
    )
    return Command(RequestCode.UPDATE_AND_CREATE_TOPIC, ext=write_header(header))


def exchange(
    connection: socket.socket, requests: Sequence[Command], sign: Sign | None = None
) -> list[Command]:
    """Send requests together and return their answers in their order; raise when one is refused."""
    for number, one in enumerate(requests, OPAQUE_FIRST):
        one.opaque = number
        if sign is not None:
            sign(one)
    connection.sendall(b"".join(encode(one) for one in requests))
    found: dict[int, Command] = {}
    for command in _commands(connection, time.monotonic() + TIMEOUT_S):
        if command.is_response:
            if command.code:
                raise refusal(command.code, command.remark or "")
            found[command.opaque] = command
        if len(found) == len(requests):
            break
    return [found[opaque] for opaque in sorted(found)]


def _commands(connection: socket.socket, deadline: float) -> Iterator[Command]:
    reader = CommandReader()
    while time.monotonic() < deadline:
        data = connection.recv(_RECEIVE_BYTES)
        if not data:
            break
        reader.feed(data)
        while (command := reader.next_command()) is not None:
            yield command
    raise ConnectionLost("the broker ended the connection, or does not answer")
