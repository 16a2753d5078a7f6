"""Checks of requests about popped messages, with RocketMQ 5's codes and remarks."""

from pyromq.broker.groups.group_room import Groups
from pyromq.broker.topics.intake import FAQ
from pyromq.broker.topics.topics import TopicTable
from pyromq.codes import Perm, ResponseCode
from pyromq.config.settings import BrokerSettings
from pyromq.errors import MessageIllegal, NoPermission, Refused, TopicNotFound
from pyromq.store.store import MessageStore
from pyromq.wire.bodies.topic_bodies import TopicConfig


class PopChecks:
    """Raises Refused for what a client may not pop, or what is not there."""

    def __init__(
        self,
        store: MessageStore,
        topics: TopicTable,
        groups: Groups,
        settings: BrokerSettings,
        *,
        broker_ip: str,
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups.table
        self._settings = settings
        self._broker_ip = broker_ip

    def check_broker(self, what: str) -> None:
        """Raise NoPermission when nothing may be read here."""
        if not self._settings.broker_permission & Perm.READ:
            raise NoPermission(ResponseCode.NO_PERMISSION, self.remark(what, "forbidden"))

    def remark(self, what: str, why: str) -> str:
        """Return what the broker says of a request that it refuses."""
        return f"the broker[{self._broker_ip}] {what} is {why}"

    def check_readable(self, topic: str, queue_id: int, group: str, peer: str) -> TopicConfig:
        """Return a topic that a group may read, and that has this queue; any queue below 0 means all."""
        config = self.topic(topic)
        if not config.perm & Perm.READ:
            raise NoPermission(ResponseCode.NO_PERMISSION, f"the topic[{topic}] peeking message is forbidden")
        if queue_id >= config.read_queue_nums:
            raise Refused(ResponseCode.INVALID_PARAMETER, _bad_queue(config, queue_id, peer))
        settings = self._groups.find(group)
        if settings is None:
            raise Refused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{group}] does not exist, {FAQ}",
            )
        if not settings.consume_enable:
            raise NoPermission(ResponseCode.NO_PERMISSION, f"subscription group no permission, {group}")
        if not self._groups.may_read(group, topic):
            raise NoPermission(
                ResponseCode.NO_PERMISSION, f"the consumer group[{group}] is forbidden for topic[{topic}]"
            )
        return config

    def topic(self, topic: str) -> TopicConfig:
        """Return a topic that is there."""
        config = self._topics.get(topic)
        if config is None:
            raise TopicNotFound(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please! {FAQ}"
            )
        return config

    def check_message(self, topic: str, queue_id: int, offset: int, peer: str, *, may_be_next: bool) -> None:
        """Raise Refused unless a queue is there and has a message with this offset, or it is the next."""
        config = self.topic(topic)
        if not 0 <= queue_id < config.read_queue_nums:
            raise MessageIllegal(ResponseCode.MESSAGE_ILLEGAL, _bad_queue(config, queue_id, peer))
        least, end = self.ends(topic, queue_id)
        if not least <= offset < end + may_be_next:
            raise Refused(
                ResponseCode.NO_MESSAGE,
                f"offset is illegal, key:{topic}@{queue_id}, commit:{offset}, store:{least}~{end}",
            )

    def ends(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return a queue's first offset, and the one behind its last."""
        return max(self._store.min_offset(topic, queue_id), 0), self._store.readable_end(topic, queue_id)


def _bad_queue(config: TopicConfig, queue_id: int, peer: str) -> str:
    return (
        f"queueId[{queue_id}] is illegal, topic:[{config.topic_name}] "
        # The slash is how Java prints an address.
        f"topicConfig.readQueueNums:[{config.read_queue_nums}] consumer:[/{peer}]"
    )
