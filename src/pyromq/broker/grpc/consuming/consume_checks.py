"""The checks of a request that consumes: names first, then what there is of topics and groups."""

from typing import Final

from pyromq.broker.groups.groups import GroupTable
from pyromq.broker.live_settings import BrokerLiveSettings
from pyromq.broker.topics.topics import TopicTable
from pyromq.codes import Perm
from pyromq.config.settings import BrokerSettings
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.bodies.topic_bodies import TopicConfig
from pyromq.wire.grpc.grpc_codes import GrpcCode, GrpcRefused
from pyromq.wire.grpc.grpc_names import check_grpc_group, check_grpc_topic

#: A number, whose bits are tested much faster than a flag's.
_READ: Final = int(Perm.READ)


class ConsumeChecks:
    """Says no to requests for topics and groups that are not there, or that may not be read."""

    def __init__(
        self, topics: TopicTable, groups: GroupTable, settings: BrokerSettings, live: BrokerLiveSettings
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._settings = settings
        self._live = live

    @property
    def revision(self) -> tuple[int, int, int]:
        """The state of topics, groups and settings: while it is the same, so is what is said of a request."""
        return self._topics.revision, self._groups.revision, self._live.revision

    def topic(self, name: str) -> TopicConfig:
        """Return a topic that is here; raise GrpcRefused when there is none of that name."""
        check_grpc_topic(name)
        config = self._topics.get(name)
        if config is None:
            raise GrpcRefused(
                GrpcCode.TOPIC_NOT_FOUND,
                f"topic {name} is not on this broker; create it, or send to it first",
            )
        return config

    def readable_topic(self, name: str) -> TopicConfig:
        """Return a topic that is here and has a readable queue."""
        config = self.topic(name)
        if not config.perm & _READ or config.read_queue_nums <= 0:
            raise GrpcRefused(GrpcCode.FORBIDDEN, f"topic {name} has no readable queue")
        if not self._settings.broker_permission & _READ:
            raise GrpcRefused(
                GrpcCode.FORBIDDEN, f"broker {self._settings.broker_name} lets nobody read (brokerPermission)"
            )
        return config

    def group(self, name: str) -> SubscriptionGroupConfig:
        """Return a group, created by its first use where the settings let it."""
        check_grpc_group(name)
        config = self._groups.find(name)
        if config is None:
            raise GrpcRefused(
                GrpcCode.CONSUMER_GROUP_NOT_FOUND,
                f"consumer group {name} does not exist, and autoCreateSubscriptionGroup=false: create it",
            )
        return config

    def consuming_group(self, name: str, topic: str) -> SubscriptionGroupConfig:
        """Return a group that may consume a topic."""
        config = self.group(name)
        if not config.consume_enable:
            raise GrpcRefused(
                GrpcCode.FORBIDDEN, f"consumer group {name} may not consume (consumeEnable=false)"
            )
        if not self._groups.may_read(name, topic):
            raise GrpcRefused(GrpcCode.FORBIDDEN, f"consumer group {name} is forbidden to read topic {topic}")
        return config
