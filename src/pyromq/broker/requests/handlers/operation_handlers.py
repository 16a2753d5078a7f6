"""Topics and groups made, changed and forgotten by operators, and what is left over cleaned up."""

import logging
from collections.abc import Callable

from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.groups.group_room import Groups
from pyromq.broker.metrics.stats import BrokerStats
from pyromq.broker.pop.pop_door import Pop
from pyromq.broker.registration import Registration
from pyromq.broker.topics import topic_names
from pyromq.broker.topics.topics import TopicTable
from pyromq.codes import ResponseCode
from pyromq.errors import Refused, TopicNotFound
from pyromq.net.routes import Answer, Request
from pyromq.store.store import MessageStore
from pyromq.wire.bodies.group_bodies import decode_group, encode_group
from pyromq.wire.bodies.operation_bodies import GroupForbidden, decode_group_configs, decode_topic_configs
from pyromq.wire.headers.operation_headers import (
    DeleteSubscriptionGroup,
    DeleteTopic,
    GetSubscriptionGroupConfig,
    GetTopicConfig,
    UpdateGroupForbidden,
)
from pyromq.wire.java_json import dumps

log = logging.getLogger(__name__)


class OperationHandlers:
    """Answers 18, 200, 207, 215, 225, 306, 316, 329, 351 to 353, when the disk has what is changed."""

    def __init__(
        self,
        *,
        topics: TopicTable,
        groups: Groups,
        store: MessageStore,
        stats: BrokerStats,
        durability: Durability,
        registration: Registration,
        let_files_go: Callable[[], None],
        pop: Pop,
    ) -> None:
        self._topics = topics
        self._groups = groups.table
        self._offsets = groups.offsets
        self._modes = groups.request_modes
        self._store = store
        self._stats = stats
        self._durability = durability
        self._registration = registration
        #: Lets files go that are old enough, at any hour.
        self._let_files_go = let_files_go
        self._pop = pop

    # Topics

    async def update_topics(self, request: Request[None]) -> Answer:
        """Create or change topics, all of them or none."""
        topics = decode_topic_configs(request.body)
        for config in topics:
            topic_names.check_name(config.topic_name)
            self._topics.check_not_system(config.topic_name)
        for config in [self._topics.altered(each) for each in topics]:
            self._topics.put(config)
        await self._topics.save()
        await self._registration.register()
        return Answer()

    async def delete_topic(self, request: Request[DeleteTopic]) -> Answer:
        """Forget a topic, its queues and the progress of groups in it; messages leave with their files."""
        topic = request.header.topic
        topic_names.check_name(topic)
        self._topics.check_not_system(topic)
        was_there = self._topics.remove(topic)
        self._pop.forget_topic(topic)
        await self._topics.save()
        count = self._forget_queues(topic)
        self._offsets.remove_topic(topic)
        self._modes.forget_topic(topic)
        await self._offsets.save()
        if count:
            # What is before the checkpoint is not looked at after a crash: the queues would come back.
            await self._durability.sync_queues_now()
        await self._registration.register()
        if was_there or count:
            log.info("%s deletes topic %s and %d queues", request.link.peer, topic, count)
        return Answer()

    def _forget_queues(self, topic: str) -> int:
        self._stats.forget_topic(topic)
        return self._store.delete_topic(topic)

    def topic_config(self, request: Request[GetTopicConfig]) -> Answer:
        """Answer one topic's configuration."""
        topic = request.header.topic
        config = self._topics.get(topic)
        if config is None:
            raise TopicNotFound(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {topic}")
        return Answer(body=dumps(config))

    # Groups

    async def update_group(self, request: Request[None]) -> Answer:
        """Create or change a group."""
        self._groups.put(self._groups.altered(decode_group(request.body)))
        await self._groups.save()
        return Answer()

    async def update_groups(self, request: Request[None]) -> Answer:
        """Create or change groups."""
        for config in [self._groups.altered(each) for each in decode_group_configs(request.body)]:
            self._groups.put(config)
        await self._groups.save()
        return Answer()

    async def delete_group(self, request: Request[DeleteSubscriptionGroup]) -> Answer:
        """Forget a group's configuration, and its progress if that is wanted."""
        group = request.header.group_name
        if self._groups.remove(group):
            log.info("%s deletes group %s", request.link.peer, group)
        self._pop.forget_group(group)
        self._stats.forget_group(group)
        self._modes.forget_group(group)
        await self._groups.save()
        if request.header.remove_offset:
            self._offsets.remove_group(group)
            await self._offsets.save()
        return Answer()

    def group_config(self, request: Request[GetSubscriptionGroupConfig]) -> Answer:
        """Answer one group's configuration; as any use, this creates it where that is allowed."""
        config = self._groups.find(request.header.group)
        if config is None:
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
        return Answer(body=encode_group(config))

    async def forbid(self, request: Request[UpdateGroupForbidden]) -> Answer:
        """Say whether a group may read a topic, and answer whether it may."""
        header = request.header
        if header.readable is not None:
            self._groups.forbid(header.group, header.topic, readable=header.readable)
            await self._groups.save()
        return Answer(
            remark="",
            body=dumps(
                GroupForbidden(
                    group=header.group,
                    topic=header.topic,
                    readable=self._groups.may_read(header.group, header.topic),
                )
            ),
        )

    # Cleaning up

    def clean_queues(self, _request: Request[None]) -> Answer:
        """Let queue files go whose messages the log has lost: they went with the log's, and none is left."""
        return Answer()

    async def clean_log(self, request: Request[None]) -> Answer:
        """Let files of the log go that are old enough, at whatever hour."""
        log.info("%s lets old files of the log go", request.link.peer)
        # Those that the disk's queues do not know yet would stay.
        await self._durability.sync_queues_now()
        self._let_files_go()
        return Answer()

    async def clean_topics(self, request: Request[None]) -> Answer:
        """Remove the queues of topics that are in no table."""
        gone = self._store.clean_unused([*self._topics.configs, *self._topics.system_names])
        for topic in gone:
            self._stats.forget_topic(topic)
        if gone:
            log.info("%s removes the queues of %s", request.link.peer, ", ".join(gone))
            await self._durability.sync_queues_now()
        return Answer()
