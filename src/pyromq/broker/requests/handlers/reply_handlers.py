"""The reply to a request: pushed to the requester, on the connection that it holds to this broker.

The requester's client id is in the reply's property REPLY_TO_CLIENT. Whether the push succeeded is the
answer's code; the reply is stored in the cluster's reply topic either way, if the settings want it.
"""

import logging
from random import randrange

from pyromq.broker.durability.write_path import WritePath
from pyromq.broker.groups.clients import Producers
from pyromq.broker.requests.answer_parts import sent_ext
from pyromq.broker.topics.intake import check_queue
from pyromq.broker.topics.topics import TopicTable
from pyromq.clock import Clock
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import BrokerSettings
from pyromq.errors import NetworkError, Refused
from pyromq.net.routes import Answer, Request
from pyromq.store.store import Draft, Placed
from pyromq.wire import properties as names
from pyromq.wire.command import Command
from pyromq.wire.header import write_header
from pyromq.wire.headers.send_headers import PushReplyMessage, SendMessage, SendMessageV2
from pyromq.wire.message_id import offset_message_id

log = logging.getLogger(__name__)

ReplyRequest = Request[SendMessage] | Request[SendMessageV2]
#: How long the requester has to say that it took the reply.
PUSH_S_MAX = 10.0


class ReplyHandlers:
    """Answers SEND_REPLY_MESSAGE and SEND_REPLY_MESSAGE_V2."""

    def __init__(
        self,
        write: WritePath,
        *,
        topics: TopicTable,
        producers: Producers,
        settings: BrokerSettings,
        clock: Clock,
    ) -> None:
        self._admission = write.admission
        self._intake = write.intake
        self._durability = write.durability
        self._store_address = write.addresses.advertised
        self._store_host = write.addresses.store_host
        self._topics = topics
        self._producers = producers
        self._settings = settings
        self._clock = clock
        #: What every answer carries, a refusal too.
        self.common_ext = sent_ext(settings)

    async def reply(self, request: ReplyRequest) -> Answer:
        """Push a reply to its requester, store it, and answer whether the requester has it."""
        header = request.header
        config = self._admission.check_topic(header.topic)
        if config is None:
            config = self._admission.create_topic(header)
            await self._topics.save()
        check_queue(config, header.queue_id, request.link.peer)
        queue_id = header.queue_id if header.queue_id >= 0 else randrange(config.write_queue_nums)
        answer = Answer(ext=dict(self.common_ext))
        assert answer.ext is not None
        failure = await self._push(request)
        if failure is None:
            answer.ext |= {"msgId": "0", "queueId": str(queue_id), "queueOffset": "0"}
        stored = self._store(request, queue_id) if self._settings.store_reply_message_enable else None
        if stored is not None:
            answer = await self._acknowledged(answer, stored, queue_id)
        if failure is not None:
            answer.code, answer.remark = ResponseCode.SYSTEM_ERROR, failure
        self._durability.vouch()
        return answer

    async def _acknowledged(self, answer: Answer, stored: Placed, queue_id: int) -> Answer:
        """Add where the reply is, once it is as safe as a sent message; the code says so if it is not."""
        message_id = offset_message_id(self._store_host, stored.position)
        answer.ext = (answer.ext or {}) | {
            "msgId": message_id,
            "queueId": str(queue_id),
            "queueOffset": str(stored.queue_offset),
        }
        acknowledged = self._durability.acknowledge(stored.end, answer)
        return acknowledged if isinstance(acknowledged, Answer) else await acknowledged

    async def _push(self, request: ReplyRequest) -> str | None:
        """Push the reply; return why that failed, None when the requester has it."""
        properties = names.decode(request.header.properties or "")
        client_id = properties.get(names.REPLY_TO_CLIENT)
        if client_id is None:
            return f"reply message properties[{names.REPLY_TO_CLIENT}] is null"
        link = self._producers.link_of(client_id)
        if link is None:
            log.warning("a reply of %s is for %s, which is not here", request.link.peer, client_id)
            return f"push reply message fail, channel of <{client_id}> not found."
        properties[names.PUSH_REPLY_TIME] = str(self._clock.now_ms())
        try:
            answer = await link.request(self._push_command(request, names.encode(properties)), PUSH_S_MAX)
        except NetworkError as error:
            log.warning("a reply was not pushed to %s: %s", client_id, error)
        else:
            if answer.code == ResponseCode.SUCCESS:
                return None
            log.warning("%s does not take a reply: %s", client_id, answer.remark)
        return f"push reply message to {client_id}fail."

    def _push_command(self, request: ReplyRequest, properties: str) -> Command:
        header = request.header
        pushed = PushReplyMessage(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=header.queue_id,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            properties=properties,
            reconsume_times=header.reconsume_times,
            unit_mode=header.unit_mode,
            born_host=request.link.peer,
            store_host=self._store_address,
            store_timestamp=self._clock.now_ms(),
        )
        return Command(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, ext=write_header(pushed), body=request.body)

    def _store(self, request: ReplyRequest, queue_id: int) -> Placed | None:
        """Store the reply and return where; a reply that is not stored is only logged, as with RocketMQ."""
        header = request.header
        draft = Draft(
            topic=header.topic,
            queue_id=queue_id,
            body=request.body,
            properties=header.properties or "",
            flag=header.flag,
            sys_flag=header.sys_flag,
            born_at_ms=header.born_timestamp,
            born_host=request.link.peer_host_bytes,
            store_host=self._store_host,
            reconsume_times=header.reconsume_times or 0,
        )
        try:
            return self._intake.put_as_is(draft)
        except Refused as refusal:
            log.warning("a reply of %s was not stored: %s", request.link.peer, refusal)
            return None
