"""Questions of operators that only a consumer can answer: the broker passes them on.

The consumer's link is the one that it opened to us; the request goes the other way on it.
"""

import logging
from collections.abc import Mapping

from pyromq.broker.groups.clients import ClientChannel, ConsumerGroup
from pyromq.broker.groups.group_room import Groups
from pyromq.broker.pop.pop_door import Pop
from pyromq.broker.topics.topics import TopicTable
from pyromq.codes import Language, RequestCode, ResponseCode
from pyromq.errors import NetworkError, Refused, RequestTimeout, ServerFailed, TopicNotFound
from pyromq.model import MessageQueue
from pyromq.net.routes import Answer, Request
from pyromq.store.store import MessageStore
from pyromq.wire.bodies.offset_bodies import (
    decode_consumer_status,
    decode_reset_offsets,
    encode_reset_offsets,
    encode_reset_offsets_for_cpp,
)
from pyromq.wire.command import Command
from pyromq.wire.headers.admin_headers import GetConsumerStatus, ResetGroupOffsets, ResetOffset
from pyromq.wire.headers.group_headers import ConsumeMessageDirectly, GetConsumerRunningInfo
from pyromq.wire.java_json import dumps
from pyromq.wire.message_id import parse_offset_message_id

log = logging.getLogger(__name__)

RELAY_S_MAX = 10.0
STATUS_S_MAX = 5.0
#: MQVersion ordinals below which consumers do not know the requests: V3_1_8_SNAPSHOT, V3_0_7_SNAPSHOT.
VERSION_RELAY = 62
VERSION_RESET = 28
#: As timestamp of a reset: to the queue's end.
TO_THE_END = -1


class RelayHandlers:
    """Answers GET_CONSUMER_RUNNING_INFO, CONSUME_MESSAGE_DIRECTLY, and the resets and reports of progress."""

    def __init__(
        self,
        *,
        topics: TopicTable,
        groups: Groups,
        store: MessageStore,
        broker_name: str,
        pop: Pop,
    ) -> None:
        self._topics = topics
        self._consumers = groups.consumers
        self._offsets = groups.offsets
        self._store = store
        self._broker_name = broker_name
        self._pop = pop

    async def running_info(self, request: Request[GetConsumerRunningInfo]) -> Answer:
        """Ask a consumer what it is doing."""
        header = request.header
        member = self._member(header.consumer_group, header.client_id)
        return await _relay(request.command, header.consumer_group, member, body=request.body)

    async def consume_directly(self, request: Request[ConsumeMessageDirectly]) -> Answer:
        """Have a consumer consume one message now."""
        header = request.header
        record = self._store.read_at(parse_offset_message_id(header.msg_id or "").position)
        if record is None:
            raise ServerFailed(
                ResponseCode.SYSTEM_ERROR, f"no message {header.msg_id} is stored here; it may have expired"
            )
        member = self._member(header.consumer_group, header.client_id or "")
        command = request.command
        command.ext = {**(command.ext or {}), "brokerName": self._broker_name}
        return await _relay(command, header.consumer_group, member, body=record)

    def reset_offset(self, request: Request[ResetOffset]) -> Answer:
        """Tell every member of a group to go on at a time, and answer the offsets of that time.

        Where members pop there is nobody to be told: the next pop begins there.
        """
        header = request.header
        table = self._offsets_at(header)
        group = self._consumers.get(header.group)
        if self._reset_pops(header.group, table):
            return Answer(body=encode_reset_offsets(table))
        if group is None:
            raise Refused(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"Consumer not online, so can not reset offset, Group: {header.group} "
                f"Topic: {header.topic} Timestamp: {header.timestamp}",
            )
        _check_versions(group)
        ext = {
            "topic": header.topic,
            "group": header.group,
            "timestamp": str(header.timestamp),
            "isForce": "false",
        }
        is_cpp = request.command.language == Language.CPP
        body = encode_reset_offsets_for_cpp(table) if is_cpp else encode_reset_offsets(table)
        for link in group.links:
            link.oneway(Command(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext=dict(ext), body=body))
        return Answer(body=encode_reset_offsets(table))

    def _reset_pops(self, group: str, table: Mapping[MessageQueue, int]) -> bool:
        """Let a group that pops go on at offsets; return whether it does pop."""
        popped = [
            queue for queue in table if self._pop.next_offset(group, queue.topic, queue.queue_id) is not None
        ]
        for queue in popped:
            self._pop.reset(group, queue.topic, queue.queue_id, table[queue])
        return bool(popped)

    async def reset_group_offsets(self, request: Request[ResetGroupOffsets]) -> Answer:
        """Tell every member of a group to go on at offsets of some queues, and remember them.

        A member that is away, and one that joins, find the same offsets here.
        """
        topic, group_name = request.header.topic, request.header.group
        if self._topics.get(topic) is None:
            raise TopicNotFound(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        table = {
            queue: offset
            for queue, offset in decode_reset_offsets(request.body).items()
            if queue.topic == topic and queue.broker_name == self._broker_name and offset >= 0
        }
        group = self._consumers.get(group_name)
        if group is not None:
            _check_versions(group)
        for queue, offset in table.items():
            self._offsets.commit(group_name, topic, queue.queue_id, offset)
        self._reset_pops(group_name, table)
        await self._offsets.save()
        # A number for the time of 222, which members only log.
        ext = {"topic": topic, "group": group_name, "timestamp": "0", "isForce": "true"}
        body = encode_reset_offsets(table)
        for link in () if group is None else group.links:
            link.oneway(Command(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext=dict(ext), body=body))
        return Answer(body=body)

    async def consumer_status(self, request: Request[GetConsumerStatus]) -> Answer:
        """Ask the members of a group, or one of them, how far they are in each queue."""
        header = request.header
        group = self._consumers.get(header.group)
        if group is None:
            raise ServerFailed(
                ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{header.group}]"
            )
        _check_versions(group)
        ext = {"topic": header.topic, "group": header.group}
        by_client: dict[str, dict[MessageQueue, int]] = {}
        for member in list(group.members.values()):
            if header.client_addr and header.client_addr != member.client_id:
                continue
            status = await _ask_status(member, ext)
            if status is not None:
                by_client[member.client_id] = status
        return Answer(body=dumps({"consumerTable": by_client, "messageQueueTable": {}}))

    def _member(self, group_name: str, client_id: str) -> ClientChannel:
        group = self._consumers.get(group_name)
        member = None if group is None else group.member(client_id)
        if member is None:
            raise ServerFailed(
                ResponseCode.SYSTEM_ERROR, f"The Consumer <{group_name}> <{client_id}> not online"
            )
        if member.version < VERSION_RELAY:
            raise ServerFailed(
                ResponseCode.SYSTEM_ERROR,
                f"The Consumer <{client_id}> Version <{member.version}> too low to finish, "
                "please upgrade it to V3_1_8_SNAPSHOT",
            )
        return member

    def _offsets_at(self, header: ResetOffset) -> dict[MessageQueue, int]:
        topic = header.topic
        config = self._topics.get(topic)
        if config is None:
            raise ServerFailed(
                ResponseCode.SYSTEM_ERROR,
                f"[reset-offset] reset offset failed, no topic in this broker. topic={topic}",
            )
        table = {}
        for queue_id in range(config.write_queue_nums):
            progress = self._offsets.progress(header.group, topic, queue_id)
            if progress is None:
                raise ServerFailed(
                    ResponseCode.SYSTEM_ERROR, f"THe consumer group <{header.group}> not exist"
                )
            at = (
                self._store.readable_end(topic, queue_id)
                if header.timestamp == TO_THE_END
                else self._store.offset_by_time(topic, queue_id, header.timestamp)
            )
            offset = max(at, 0)
            table[MessageQueue(topic, self._broker_name, queue_id)] = (
                offset if header.is_force else min(offset, progress)
            )
        return table


async def _relay(command: Command, group: str, member: ClientChannel, *, body: bytes) -> Answer:
    passed_on = Command(command.code, ext=command.ext, body=body)
    try:
        answer = await member.link.request(passed_on, RELAY_S_MAX)
    except RequestTimeout as error:
        raise Refused(
            ResponseCode.CONSUME_MSG_TIMEOUT, f"consumer <{group}> <{member.client_id}> Timeout: {error}"
        ) from error
    except NetworkError as error:
        raise ServerFailed(
            ResponseCode.SYSTEM_ERROR, f"invoke consumer <{group}> <{member.client_id}> Exception: {error}"
        ) from error
    return Answer(answer.code, answer.remark, ext=answer.ext, body=answer.body)


async def _ask_status(member: ClientChannel, ext: dict[str, str]) -> dict[MessageQueue, int] | None:
    """Return a member's offsets by queue, or None when it does not answer: the others' still matter."""
    command = Command(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ext=dict(ext))
    try:
        answer = await member.link.request(command, STATUS_S_MAX)
    except NetworkError as error:
        log.warning("consumer %s does not say how far it is: %s", member.client_id, error)
        return None
    if answer.code != ResponseCode.SUCCESS or not answer.body:
        return None
    return decode_consumer_status(answer.body)


def _check_versions(group: ConsumerGroup) -> None:
    old = next((member for member in group.members.values() if member.version < VERSION_RESET), None)
    if old is not None:
        raise ServerFailed(
            ResponseCode.SYSTEM_ERROR, f"the client does not support this feature. version={old.version}"
        )
