"""The groups of a survey: members, their states and the group's offsets, before and after the watch.

Brokers know the connections (203) and the committed offsets (317) of a group. Members know their state
(307), which is newer: they commit offsets only every five seconds. The offset of a group is the larger of
both.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pyromq.client.names import RETRY_TOPIC_PREFIX
from pyromq.client.namespaces import DEAD_LETTER_TOPIC_PREFIX
from pyromq.model import MessageQueue
from pyromq.wire.bodies.connection_bodies import ConsumerConnections
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.bodies.heartbeat_bodies import ConsumeType, MessageModel, Subscription
from pyromq.wire.bodies.offset_bodies import GroupProgress, TopicOffset
from pyromq.wire.bodies.running_info import QueueState, RunningState


@dataclass(frozen=True, slots=True)
class TailMessage:
    """One of a topic's last messages: what filters look at, and when it was stored."""

    tag: str | None
    properties: Mapping[str, str]
    stored_at_ms: int


@dataclass(slots=True)
class GroupLook:
    """A group in one snapshot."""

    #: Who is connected, by the names of the brokers that know anybody.
    connections: dict[str, ConsumerConnections] = field(default_factory=dict)
    #: What members say of themselves, by client id; and why those do not that were asked.
    states: dict[str, RunningState] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)
    #: How far the group is, as brokers know it.
    progress: dict[MessageQueue, GroupProgress] = field(default_factory=dict)

    @property
    def client_ids(self) -> list[str]:
        """The members, each once."""
        return sorted({one.client_id for said in self.connections.values() for one in said.connections})

    @property
    def is_fully_known(self) -> bool:
        """Whether every member said what it does."""
        return all(client_id in self.states for client_id in self.client_ids)

    def addresses(self, client_id: str) -> dict[str, list[str]]:
        """Return where a client is connected from, by broker: two addresses are two clients."""
        found = {
            broker: [one.client_addr for one in said.connections if one.client_id == client_id]
            for broker, said in self.connections.items()
        }
        return {broker: addresses for broker, addresses in found.items() if addresses}

    def address(self, client_id: str) -> str:
        """Return one address that a client is connected from."""
        return next((each for all_ in self.addresses(client_id).values() for each in all_), "")

    def queues(self) -> Iterator[tuple[str, MessageQueue, QueueState]]:
        """Yield which member has which queue, and what it has of it."""
        for client_id, state in self.states.items():
            for queue, of_queue in state.queues.items():
                if not of_queue.droped:
                    yield client_id, queue, of_queue

    def reached(self) -> dict[MessageQueue, int]:
        """Return how far the group is in each queue of which anything is known."""
        found = {queue: progress.reached for queue, progress in self.progress.items()}
        for _, queue, state in self.queues():
            if state.commit_offset >= 0:
                found[queue] = max(state.commit_offset, found.get(queue, 0))
        return found


@dataclass(slots=True)
class GroupSeen:
    """A group that has members or is behind."""

    name: str
    #: Its configs by the names of the masters that have it.
    configs: Mapping[str, SubscriptionGroupConfig] = field(default_factory=dict)
    #: The names of the masters that are asked about it: those that have it, its members or its progress.
    places: set[str] = field(default_factory=set)
    before: GroupLook = field(default_factory=GroupLook)
    #: The same after the watch; None without one.
    after: GroupLook | None = None
    #: Where the threads are of members that stand still, by client id.
    stacks: dict[str, str] = field(default_factory=dict)
    #: For how many milliseconds the first message waits that the group has not read.
    waits_ms: dict[MessageQueue, int] = field(default_factory=dict)

    @property
    def latest(self) -> GroupLook:
        """The last look."""
        return self.before if self.after is None else self.after

    @property
    def client_ids(self) -> list[str]:
        """The members, each once."""
        return self.latest.client_ids

    @property
    def is_clustering(self) -> bool:
        """Whether its members share the queues; a group without members is believed to."""
        return all(
            said.message_model != MessageModel.BROADCASTING for said in self.latest.connections.values()
        )

    @property
    def is_deleted(self) -> bool:
        """Whether no broker has it, and nobody is there who uses it: only its progress is left."""
        return not self.configs and not self.client_ids

    @property
    def is_push(self) -> bool:
        """Whether its members are pushed messages: then who has which queue is not their own choice."""
        said = self.latest.connections.values()
        return bool(said) and all(one.consume_type == ConsumeType.CONSUME_PASSIVELY for one in said)

    @property
    def subscriptions(self) -> dict[str, Subscription]:
        """Its subscriptions by topic, as brokers know them."""
        return {
            topic: wanted
            for said in self.latest.connections.values()
            for topic, wanted in said.subscriptions.items()
        }

    @property
    def topics(self) -> set[str]:
        """The topics that it subscribes to or has progress in; its own retries are one."""
        look = self.latest
        return {*self.subscriptions, *(queue.topic for queue in look.progress)}

    @property
    def retry_topic(self) -> str:
        """The topic of messages that failed and will be delivered again."""
        return RETRY_TOPIC_PREFIX + self.name

    @property
    def dead_letter_topic(self) -> str:
        """The topic of messages that failed too often."""
        return DEAD_LETTER_TOPIC_PREFIX + self.name


def lag_of(group: GroupSeen) -> int:
    """Return about how many messages a group has not read, as brokers know it."""
    return sum(one.behind for one in group.latest.progress.values())


@dataclass(slots=True)
class GroupsSeen:
    """The consumer groups as they were seen."""

    #: The topics that the groups of the scope read.
    topics: set[str] = field(default_factory=set)
    #: Those of the scope that have members or progress.
    seen: dict[str, GroupSeen] = field(default_factory=dict)
    #: Begin and end of the queues that they read, and of their dead letters; and after the watch.
    queues: dict[MessageQueue, TopicOffset] = field(default_factory=dict)
    queues_later: dict[MessageQueue, TopicOffset] = field(default_factory=dict)
    #: The last messages of topics that somebody filters.
    tails: dict[str, list[TailMessage]] = field(default_factory=dict)
    #: For how many milliseconds messages wait that members of broadcasting groups read next.
    waits_ms: dict[tuple[MessageQueue, int], int] = field(default_factory=dict)
    #: Seconds between the two looks, and when the last one was, on this machine.
    watched_s: float = 0.0
    looked_at_ms: int = 0

    @property
    def latest_queues(self) -> dict[MessageQueue, TopicOffset]:
        """Begin and end of queues at the last look."""
        return self.queues_later or self.queues
