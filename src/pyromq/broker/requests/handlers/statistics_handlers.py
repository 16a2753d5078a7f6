"""Statistics for operators: traffic, the readers of topics, and the progress of groups."""

from collections.abc import Iterable

from pyromq.broker.delivery.sql_filters import FilterTable
from pyromq.broker.groups.clients import ClientChannel
from pyromq.broker.groups.group_room import Groups
from pyromq.broker.metrics.runtime import RuntimeTable
from pyromq.broker.metrics.stats import BrokerStats
from pyromq.broker.topics.topics import TopicTable
from pyromq.codes import Language, ResponseCode
from pyromq.config.settings import BrokerSettings
from pyromq.errors import ServerFailed, TopicNotFound
from pyromq.model import MessageQueue
from pyromq.net.routes import Answer, Request
from pyromq.store.store import MessageStore
from pyromq.wire.bodies.group_bodies import TABLE_BUCKETS
from pyromq.wire.bodies.list_bodies import TopicList, encode_topic_list
from pyromq.wire.bodies.offset_bodies import GroupProgress
from pyromq.wire.bodies.operation_bodies import (
    GroupLag,
    GroupSubscription,
    ProducerClient,
    QueueRow,
    QueueRows,
    TimeSpan,
    encode_corrections,
    encode_group_names,
    encode_lag,
    encode_lags,
    encode_producers,
    encode_queue_rows,
    encode_rates,
    encode_time_spans,
)
from pyromq.wire.bodies.registration_bodies import KeyValueTable, encode_key_values
from pyromq.wire.bodies.topic_bodies import TopicConfig
from pyromq.wire.headers.admin_headers import GetConsumeStats
from pyromq.wire.headers.operation_headers import (
    CloneGroupOffset,
    GetBrokerConsumeStats,
    QueryConsumeQueue,
    QueryConsumeTimeSpan,
    QueryCorrectionOffset,
    QuerySubscriptionByConsumer,
    QueryTopicConsumeByWho,
    QueryTopicsByConsumer,
    ViewBrokerStats,
)
from pyromq.wire.java_hash import java_map_order
from pyromq.wire.java_json import dumps

#: What a corrected offset is where the group is ahead of the slowest: Java's greatest number.
NO_CORRECTION = 2**63 - 1
#: Entries of a queue that one answer has at most.
QUEUE_ROWS_MAX = 10_000


class StatisticsHandlers:
    """Answers 28, 208, 300, 303, 308, 314, 315, 317, 321, 328, 343 and 345."""

    def __init__(
        self,
        *,
        topics: TopicTable,
        groups: Groups,
        filters: FilterTable,
        store: MessageStore,
        stats: BrokerStats,
        runtime: RuntimeTable,
        settings: BrokerSettings,
        address: str,
    ) -> None:
        self._topics = topics
        self._groups = groups.table
        self._offsets = groups.offsets
        self._consumers = groups.consumers
        self._producers = groups.producers
        self._filters = filters
        self._store = store
        self._stats = stats
        self._runtime = runtime
        self._settings = settings
        self._address = address

    # The broker

    def runtime(self, request: Request[None]) -> Answer:
        """Answer how the broker is."""
        table = self._runtime.read(request.link)
        ordered = {name: table[name] for name in java_map_order(tuple(table))}
        return Answer(body=encode_key_values(KeyValueTable(table=ordered)))

    def rates(self, request: Request[ViewBrokerStats]) -> Answer:
        """Answer how much there was of something in the last minute, hour and day."""
        header = request.header
        rates = self._stats.rates(header.stats_name, header.stats_key)
        if rates is None:
            raise ServerFailed(
                ResponseCode.SYSTEM_ERROR, f"The stats <{header.stats_name}> <{header.stats_key}> not exist"
            )
        return Answer(body=encode_rates(rates))

    def all_producers(self, _request: Request[None]) -> Answer:
        """Answer the members of all producer groups."""
        groups = self._producers.groups
        return Answer(
            body=encode_producers(
                {name: [_producer(client) for client in groups[name].values()] for name in groups}
            )
        )

    # How far groups are

    def consume_stats(self, request: Request[GetConsumeStats]) -> Answer:
        """Answer how far a group is behind in each queue."""
        group, topic = request.header.consumer_group, request.header.topic
        table: dict[MessageQueue, GroupProgress] = {}
        tps = 0.0
        for config in self._read_by(group, [topic] if topic else self._offsets.topics_of(group)):
            table |= self._progress(group, config.topic_name, config.read_queue_nums)
            tps += self._stats.consume_tps(group, config.topic_name)
        return Answer(body=encode_lag(GroupLag(offset_table=table, consume_tps=tps)))

    def all_consume_stats(self, request: Request[GetBrokerConsumeStats]) -> Answer:
        """Answer how far all groups are behind."""
        topics = self._offsets.topics_by_group()
        groups = {
            group: [
                GroupLag(
                    offset_table=self._progress(group, config.topic_name, config.write_queue_nums),
                    consume_tps=self._stats.consume_tps(group, config.topic_name),
                )
                for config in self._read_by(group, topics.get(group, ()))
                if config.order or not request.header.is_order
            ]
            for group in java_map_order(tuple(self._groups.configs), TABLE_BUCKETS)
        }
        return Answer(body=encode_lags(self._address, groups))

    def time_spans(self, request: Request[QueryConsumeTimeSpan]) -> Answer:
        """Answer when the messages of a topic were stored, and those that a group consumed."""
        topic = request.header.topic
        config = self._topics.get(topic)
        if config is None:
            raise TopicNotFound(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        return Answer(
            body=encode_time_spans(
                [
                    self._time_span(request.header.group, topic, queue_id)
                    for queue_id in range(config.write_queue_nums)
                ]
            )
        )

    def corrections(self, request: Request[QueryCorrectionOffset]) -> Answer:
        """Answer the offset of the slowest group in each queue that a group compares itself with.

        Queues in which the group is behind it need no correction.
        """
        header = request.header
        left_out = set((header.filter_groups or "").split(","))
        slowest: dict[int, int] = {}
        for group in self._offsets.groups_of(header.topic):
            if group not in left_out:
                for queue_id, offset in self._offsets.progress_in(group, header.topic).items():
                    if offset >= self._store.min_offset(header.topic, queue_id):
                        slowest[queue_id] = min(slowest.get(queue_id, offset), offset)
        for queue_id, offset in self._offsets.progress_in(header.compare_group, header.topic).items():
            if slowest.get(queue_id, offset) > offset:
                slowest[queue_id] = NO_CORRECTION
        return Answer(body=encode_corrections(slowest))

    async def clone_offsets(self, request: Request[CloneGroupOffset]) -> Answer:
        """Let a group go on where another is."""
        header = request.header
        topics = [header.topic] if header.topic else self._offsets.topics_of(header.src_group)
        for topic in topics:
            is_read = header.offline or self._is_subscribed(header.src_group, topic)
            if self._topics.get(topic) is not None and is_read:
                self._offsets.clone(header.src_group, header.dest_group, topic)
        await self._offsets.save()
        return Answer()

    # Who reads what

    def readers(self, request: Request[QueryTopicConsumeByWho]) -> Answer:
        """Answer the groups that subscribe to a topic or have progress in it."""
        topic = request.header.topic
        online = [name for name, group in self._consumers.groups.items() if topic in group.subscriptions]
        names = dict.fromkeys((*online, *self._offsets.groups_of(topic)))
        return Answer(body=encode_group_names(list(names)))

    def topics_read(self, request: Request[QueryTopicsByConsumer]) -> Answer:
        """Answer the topics that a group has progress in."""
        topics = java_map_order(tuple(dict.fromkeys(self._offsets.topics_of(request.header.group))))
        return Answer(body=encode_topic_list(TopicList(topic_list=list(topics), broker_addr=self._address)))

    def subscription(self, request: Request[QuerySubscriptionByConsumer]) -> Answer:
        """Answer what a group subscribes to in a topic."""
        group, topic = request.header.group, request.header.topic
        consumers = self._consumers.get(group)
        found = None if consumers is None else consumers.subscriptions.get(topic)
        return Answer(body=dumps(GroupSubscription(group=group, topic=topic, subscription_data=found)))

    def queue_rows(self, request: Request[QueryConsumeQueue]) -> Answer:
        """Answer entries of a queue, and what a group would see of them."""
        header = request.header
        queue = self._store.queue(header.topic, header.queue_id)
        if queue is None:
            raise ServerFailed(ResponseCode.SYSTEM_ERROR, f"{header.queue_id}@{header.topic} is not exist!")
        end = self._store.readable_end(header.topic, header.queue_id)
        if not queue.min_offset <= header.index < end:
            return Answer(remark=f"Index {header.index} of {header.queue_id}@{header.topic} is not exist!")
        count = min(max(header.count, 0), QUEUE_ROWS_MAX, end - header.index)
        entries = self._store.entries(header.topic, header.queue_id, header.index, count)
        filter_data, subscription = None, None
        if header.consumer_group is not None:
            consumers = self._consumers.get(header.consumer_group)
            subscription = None if consumers is None else consumers.subscriptions.get(header.topic)
            filter_data = f"{header.consumer_group}@{header.topic} is not online!"
            if subscription is not None:
                known = self._filters.get(header.topic, header.consumer_group)
                filter_data = "null" if known is None else dumps(known).decode()
        rows = QueueRows(
            max_queue_index=end,
            min_queue_index=queue.min_offset,
            queue_data=[
                QueueRow(physic_offset=entry.position, physic_size=entry.size, tags_code=entry.tags_code)
                for entry in entries
            ],
            filter_data=filter_data,
            subscription_data=subscription,
        )
        # RocketMQ's own remark.
        return Answer(remark="not set any response code", body=encode_queue_rows(rows))

    def _read_by(self, group: str, topics: Iterable[str]) -> list[TopicConfig]:
        """Return those of some topics that are there and that the group reads."""
        return [
            config
            for topic in topics
            if (config := self._topics.get(topic)) is not None and self._is_subscribed(group, topic)
        ]

    def _is_subscribed(self, group: str, topic: str) -> bool:
        consumers = self._consumers.get(group)
        return consumers is None or not consumers.subscriptions or topic in consumers.subscriptions

    def _progress(self, group: str, topic: str, count: int) -> dict[MessageQueue, GroupProgress]:
        return {
            MessageQueue(topic, self._settings.broker_name, queue_id): self._progress_stats(
                group, topic, queue_id
            )
            for queue_id in range(count)
        }

    def _progress_stats(self, group: str, topic: str, queue_id: int) -> GroupProgress:
        progress = max(self._offsets.progress(group, topic, queue_id) or 0, 0)
        popped = self._offsets.popped(group, topic, queue_id)
        consumed_at_ms = self._store.stored_time(topic, queue_id, progress - 1) if progress else 0
        return GroupProgress(
            broker_offset=self._store.readable_end(topic, queue_id),
            consumer_offset=progress,
            last_timestamp=max(consumed_at_ms, 0),
            pull_offset=None if popped is None else popped.next_offset,
            in_flight=None if popped is None else popped.in_flight,
        )

    def _time_span(self, group: str, topic: str, queue_id: int) -> TimeSpan:
        store = self._store
        end = store.readable_end(topic, queue_id)
        progress = self._offsets.progress(group, topic, queue_id)
        oldest_ms = store.earliest_time(topic, queue_id)
        delay_ms = 0
        if (-1 if progress is None else progress) < end:
            delay_ms = self._stats.now_ms - store.stored_time(topic, queue_id, progress or 0)
        return TimeSpan(
            message_queue=MessageQueue(topic, self._settings.broker_name, queue_id),
            min_time_stamp=oldest_ms,
            max_time_stamp=store.stored_time(topic, queue_id, end - 1),
            consume_time_stamp=store.stored_time(topic, queue_id, progress - 1) if progress else oldest_ms,
            delay_time=delay_ms,
        )


def _producer(client: ClientChannel) -> ProducerClient:
    try:
        language = Language(client.language).name
    except ValueError:
        language = Language.OTHER.name
    return ProducerClient(
        client_id=client.client_id,
        # Java writes an address without a name so.
        remote_ip=f"/{client.link.peer}",
        language=language,
        version=client.version,
        last_update_timestamp=client.seen_at_ms,
    )
