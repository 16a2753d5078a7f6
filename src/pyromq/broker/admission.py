"""Whether a send may be taken at all: the broker's and the topic's say, before anything is stored.

The checks, their order, codes and remarks are RocketMQ's (AbstractSendMessageProcessor.msgCheck).
"""

from datetime import datetime

from pyromq.broker import topic_names
from pyromq.broker.topics import TopicTable, unit_flag
from pyromq.clock import Clock
from pyromq.codes import Perm, ResponseCode
from pyromq.config.settings import BrokerSettings
from pyromq.errors import NoPermission, ServerFailed, TopicNotFound
from pyromq.wire.bodies.topics import TopicConfig
from pyromq.wire.headers.send import SendMessage, SendMessageV2

FAQ = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."
RETRY_QUEUE_COUNT = 1


class Admission:
    """Refuses sends that the settings or the topic forbid."""

    def __init__(self, topics: TopicTable, settings: BrokerSettings, clock: Clock, *, broker_ip: str) -> None:
        self._topics = topics
        self._settings = settings
        self._clock = clock
        self._broker_ip = broker_ip

    def check_topic(self, topic: str) -> TopicConfig | None:
        """Return the topic's configuration, None if it does not exist yet; raise Refused if it may not."""
        settings = self._settings
        start_ms = settings.start_accept_send_request_time_stamp
        if start_ms and self._clock.now_ms() < start_ms:
            raise ServerFailed(
                ResponseCode.SYSTEM_ERROR, f"broker unable to service, until {readable_time(start_ms)}"
            )
        config = self._topics.get(topic)
        if config is not None and config.order and not settings.broker_permission & Perm.WRITE:
            raise NoPermission(
                ResponseCode.NO_PERMISSION, f"the broker[{self._broker_ip}] sending message is forbidden"
            )
        topic_names.check_name(topic)
        topic_names.check_sendable(topic)
        return config

    def create_topic(self, header: SendMessage | SendMessageV2) -> TopicConfig:
        """Create the topic of its first send; raise TopicNotFound if topics do not come into being so.

        The caller awaits `TopicTable.save` before it answers.
        """
        topic = header.topic
        sys_flag = unit_flag(topic, is_unit=header.unit_mode)
        config = self._topics.inherit(
            topic, header.default_topic, queue_count=header.default_topic_queue_nums, sys_flag=sys_flag
        )
        if config is None and topic.startswith(topic_names.RETRY_PREFIX):
            config = self._topics.ensure(topic, queue_count=RETRY_QUEUE_COUNT, sys_flag=sys_flag)
        if config is None:
            raise TopicNotFound(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!{FAQ}"
            )
        return config


def check_queue(config: TopicConfig, queue_id: int, peer: str) -> None:
    """Raise ServerFailed when the topic has no such queue; a negative one leaves the choice to us."""
    if queue_id >= max(config.write_queue_nums, config.read_queue_nums):
        raise ServerFailed(
            ResponseCode.SYSTEM_ERROR,
            f"request queueId[{queue_id}] is illegal, {describe(config)} Producer: {peer}",
        )
    if queue_id < 0 and config.write_queue_nums < 1:
        raise ServerFailed(
            ResponseCode.SYSTEM_ERROR,
            f"topic {config.topic_name} has no queue to write to; raise its writeQueueNums",
        )


def describe(config: TopicConfig) -> str:
    """Return a topic's configuration as RocketMQ's remarks show it."""
    perm = "".join(
        letter if config.perm & bit else "-"
        for letter, bit in (("R", Perm.READ), ("W", Perm.WRITE), ("X", Perm.INHERIT))
    )
    return (
        f"TopicConfig [topicName={config.topic_name}, readQueueNums={config.read_queue_nums}, "
        f"writeQueueNums={config.write_queue_nums}, perm={perm}, topicFilterType={config.topic_filter_type}, "
        f"topicSysFlag={config.topic_sys_flag}, order={'true' if config.order else 'false'}]"
    )


def readable_time(ms: int) -> str:
    """Return a time of the wall clock as RocketMQ writes it."""
    at = datetime.fromtimestamp(ms / 1000)
    return f"{at:%Y-%m-%d %H:%M:%S},{ms % 1000:03d}"
