"""Topics, groups and connections, for operators."""

from pyromq.broker.groups.clients import ClientChannel
from pyromq.broker.groups.group_room import Groups
from pyromq.broker.groups.subscription_conflicts import stance_of
from pyromq.broker.kinds.delay import DelayedMessages
from pyromq.broker.registration import Registration
from pyromq.broker.topics import topic_names
from pyromq.broker.topics.attributes import read_changes
from pyromq.broker.topics.topics import TopicTable
from pyromq.codes import Language, ResponseCode
from pyromq.errors import HeaderError, Refused, ServerFailed, TopicNotFound
from pyromq.model import MessageQueue
from pyromq.net.routes import Answer, Request
from pyromq.store.store import MessageStore
from pyromq.wire.bodies.list_bodies import TopicList, encode_topic_list
from pyromq.wire.bodies.offset_bodies import TopicOffset, encode_topic_stats
from pyromq.wire.bodies.topic_bodies import TopicConfig
from pyromq.wire.headers.admin_headers import (
    GetConsumerConnectionList,
    GetProducerConnectionList,
    GetTopicStats,
)
from pyromq.wire.headers.topic_headers import UpdateAndCreateTopic
from pyromq.wire.java_hash import java_map_order
from pyromq.wire.java_json import dumps

FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")


class AdminHandlers:
    """Answers what mqadmin and the dashboard ask, as far as clients' tests need it."""

    def __init__(
        self,
        *,
        topics: TopicTable,
        groups: Groups,
        delayed: DelayedMessages,
        store: MessageStore,
        registration: Registration,
        broker_name: str,
    ) -> None:
        self._topics = topics
        self._groups = groups.table
        self._offsets = groups.offsets
        self._consumers = groups.consumers
        self._conflicts = groups.conflicts
        self._producers = groups.producers
        self._delayed = delayed
        self._store = store
        self._registration = registration
        self._broker_name = broker_name

    async def update_topic(self, request: Request[UpdateAndCreateTopic]) -> Answer:
        """Create or change a topic; the answer comes when it is on disk and the name servers know it."""
        header = request.header
        if header.topic_filter_type not in FILTER_TYPES:
            raise HeaderError(f"topicFilterType = [{header.topic_filter_type}] value invalid")
        topic_names.check_name(header.topic)
        self._topics.check_not_system(header.topic)
        self._topics.put(
            self._topics.altered(
                TopicConfig(
                    topic_name=header.topic,
                    read_queue_nums=header.read_queue_nums,
                    write_queue_nums=header.write_queue_nums,
                    perm=header.perm,
                    topic_filter_type=header.topic_filter_type,
                    topic_sys_flag=header.topic_sys_flag or 0,
                    attributes=read_changes(header.attributes),
                )
            )
        )
        await self._topics.save()
        await self._registration.register()
        return Answer()

    def all_topics(self, _request: Request[None]) -> Answer:
        """Answer every topic's configuration."""
        return Answer(ext={}, body=self._topics.encode())

    def system_topics(self, _request: Request[None]) -> Answer:
        """Answer the names of the broker's own topics."""
        return Answer(
            body=encode_topic_list(TopicList(topic_list=list(java_map_order(self._topics.system_names))))
        )

    def all_groups(self, _request: Request[None]) -> Answer:
        """Answer every group's configuration."""
        return Answer(body=self._groups.encode())

    def all_offsets(self, _request: Request[None]) -> Answer:
        """Answer the progress of all groups."""
        return Answer(body=self._offsets.encode())

    def all_delay_offsets(self, _request: Request[None]) -> Answer:
        """Answer how far the messages of each delay level are delivered."""
        return Answer(body=self._delayed.encode())

    def topic_stats(self, request: Request[GetTopicStats]) -> Answer:
        """Answer where each queue of a topic begins and ends."""
        topic = request.header.topic
        config = self._topics.get(topic)
        if config is None:
            raise TopicNotFound(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        queues = self._queues(topic, config.write_queue_nums)
        return Answer(body=encode_topic_stats({queue: self._queue_stats(queue) for queue in queues}))

    def consumer_connections(self, request: Request[GetConsumerConnectionList]) -> Answer:
        """Answer the members of a consumer group and what they subscribe to.

        A conflict of their subscriptions is a field of ours, which Apache's tools do not look at.
        """
        name = request.header.consumer_group
        group = self._consumers.get(name)
        if group is None:
            raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online")
        return Answer(
            body=dumps(
                {
                    "connectionSet": [_connection(member) for member in group.members.values()],
                    "consumeFromWhere": group.consume_from_where,
                    "consumeType": group.consume_type,
                    "messageModel": group.message_model,
                    **self._conflict(name),
                    "subscriptionTable": group.subscriptions,
                }
            )
        )

    def _conflict(self, name: str) -> dict[str, object]:
        found = self._conflicts.conflict(name)
        if found is None:
            return {}
        conflict, since_ms = found
        refused = [
            _connection(client) | {"subscriptions": sorted(map(str, stance_of(part).wants))}
            for client, part in self._conflicts.refused(name)
        ]
        return {"subscriptionConflict": {"difference": str(conflict), "refused": refused, "since": since_ms}}

    def producer_connections(self, request: Request[GetProducerConnectionList]) -> Answer:
        """Answer the members of a producer group."""
        name = request.header.producer_group
        members = self._producers.groups.get(name)
        if members is None:
            raise ServerFailed(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
        return Answer(body=dumps({"connectionSet": [_connection(member) for member in members.values()]}))

    def _queues(self, topic: str, count: int) -> list[MessageQueue]:
        return [MessageQueue(topic, self._broker_name, queue_id) for queue_id in range(count)]

    def _queue_stats(self, queue: MessageQueue) -> TopicOffset:
        end = self._store.readable_end(queue.topic, queue.queue_id)
        stored_at_ms = self._store.stored_time(queue.topic, queue.queue_id, end - 1) if end else 0
        return TopicOffset(
            min_offset=max(self._store.min_offset(queue.topic, queue.queue_id), 0),
            max_offset=end,
            last_update_timestamp=stored_at_ms,
        )


def _connection(client: ClientChannel) -> dict[str, object]:
    return {
        "clientAddr": client.link.peer,
        "clientId": client.client_id,
        "language": Language(client.language).name,
        "version": client.version,
    }
