"""The survey of a cluster that all checks read: its scope, two snapshots, and what group members said.

A server that does not answer is a fact of the survey and never an error. Each name server is asked, since
they may disagree, and a broker is looked at wherever any of them says that it is.
"""

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyromq.client.observation.broker_clock import uptime_s
from pyromq.client.observation.snapshot import BrokerSnapshot, ClusterSnapshot, NameServerSnapshot, Question
from pyromq.doctor.group_seen import GroupsSeen
from pyromq.doctor.words import counted
from pyromq.system_names import is_users_topic
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.bodies.replica_bodies import ReplicaList
from pyromq.wire.bodies.topic_bodies import TopicConfig

#: Seconds between the two snapshots, unless the user says otherwise.
WATCH_S: Final = 10.0
#: Seconds after its start in which a broker may not know all clients: a client sends a heartbeat to the
#: brokers that it knows every 30 seconds, and asks every 30 seconds which brokers there are.
HEARING_S: Final = 60.0
#: The name server that commands ask by default.
DEFAULT_NAME_SERVER: Final = "127.0.0.1:9876"
#: What could not be done when a question has no answer.
_COULD_NOT: Final = {
    Question.SETTINGS: "read the settings of {broker}",
    Question.REPLICAS: "list the replicas of {broker}",
    Question.TOPICS: "list the topics of {broker}",
    Question.GROUPS: "list the groups of {broker}",
    Question.OFFSETS: "see the progress of groups that {broker} does not have",
    Question.LAGS: "see how far groups are at {broker}",
    Question.READERS: "see who reads topic {about} at {broker}",
    Question.MEMBERS: "list the members of group {about} at {broker}",
    Question.QUEUES: "see the ends of topic {about} at {broker}",
}


@dataclass(frozen=True, slots=True)
class Scope:
    """The groups and topics to examine, all if none is named, and the seconds between the snapshots."""

    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    watch_s: float = WATCH_S

    def concerns(self, topic: str) -> bool:
        """Whether a topic of a group is examined; retry topics are, as they have messages of all topics."""
        return not self.topics or topic in self.topics or not is_users_topic(topic)


@dataclass(slots=True)
class Survey:
    """A cluster as it was seen, before and after the watch."""

    scope: Scope = field(default_factory=Scope)
    before: ClusterSnapshot = field(default_factory=ClusterSnapshot)
    #: Figures of brokers and progress of groups after the watch; None without a watch.
    after: ClusterSnapshot | None = None
    groups: GroupsSeen = field(default_factory=GroupsSeen)
    #: What could not be looked at, and why: sentences.
    could_not: list[str] = field(default_factory=list)

    @property
    def at(self) -> str:
        """The option that names the cluster, for commands to paste; empty if none is needed."""
        addresses = ";".join(one.address for one in self.name_servers)
        return "" if addresses == DEFAULT_NAME_SERVER else f" -n {shlex.quote(addresses)}"

    @property
    def name_servers(self) -> list[NameServerSnapshot]:
        """The name servers."""
        return self.before.name_servers

    @property
    def brokers(self) -> list[BrokerSnapshot]:
        """The brokers before the watch, masters and slaves."""
        return self.before.brokers

    @property
    def topics(self) -> dict[str, dict[str, TopicConfig]]:
        """Each topic's configurations by the names of the masters that have it; RocketMQ's own topics too."""
        return self.before.topics

    @property
    def group_configs(self) -> dict[str, dict[str, SubscriptionGroupConfig]]:
        """Each group's configurations by the names of the masters that have it."""
        return self.before.groups

    @property
    def listing(self) -> set[str]:
        """The names of the masters that listed their groups."""
        return self.before.answered.get(Question.GROUPS, set())

    @property
    def replicas(self) -> dict[str, ReplicaList]:
        """The replicas by the broker's name, where etcd elects the master."""
        return self.before.replicas

    @property
    def masters(self) -> list[BrokerSnapshot]:
        """The masters, with those that do not answer."""
        return self.before.masters

    @property
    def answering(self) -> list[BrokerSnapshot]:
        """The masters that answered."""
        return [broker for broker in self.masters if broker.error is None]

    @property
    def users_topics(self) -> dict[str, dict[str, TopicConfig]]:
        """The applications' topics within the scope, by name: no retries, dead letters or brokers' own."""
        own = self.before.own_topics
        return {
            name: self.topics[name]
            for name in sorted(self.topics)
            if name not in own and is_users_topic(name) and self._is_meant(name)
        }

    def _is_meant(self, topic: str) -> bool:
        if self.scope.topics:
            return topic in self.scope.topics
        return not self.scope.groups or topic in self.groups.topics

    def master(self, broker_name: str) -> BrokerSnapshot | None:
        """Return the master of a name, if a name server knows one."""
        return self.before.master(broker_name)

    def later(self, broker: BrokerSnapshot) -> Mapping[str, str]:
        """Return a broker's figures after the watch; empty without a watch, or without an answer."""
        seen = None if self.after is None else self.after.at(broker.address)
        return {} if seen is None else seen.figures

    def running_s(self, broker: BrokerSnapshot) -> int | None:
        """Return the seconds that a broker had been running at its last answer; None if it does not say."""
        return uptime_s(self.later(broker) or broker.figures)

    def newcomers(self, broker_names: Collection[str]) -> list[BrokerSnapshot]:
        """Return the masters of these names if all have just started, so that clients may not have told them
        yet that they are there; an empty list if one of them must know."""
        masters = [one for one in self.masters if one.broker_name in broker_names]
        running_s = [self.running_s(one) for one in masters]
        return masters if all(one is not None and one < HEARING_S for one in running_s) else []

    def note_failures(self, snapshot: ClusterSnapshot) -> None:
        """Note the questions that a snapshot has no answers to."""
        for question, broker, about, error in snapshot.failures():
            what = _COULD_NOT[question].format(broker=broker.name, about=about)
            self.could_not.append(f"{what}: {error}")
        for address, count in snapshot.skipped.items():
            skipped = snapshot.at(address)
            name = address if skipped is None else skipped.name
            more = counted(count, "more question")
            self.could_not.append(f"ask {name} {more}: it did not answer the one before")

    def give_up(self, what: str) -> None:
        """Note, once for both snapshots, what is too much for one examination."""
        sentence = f"{what}; --group looks at one group"
        if sentence not in self.could_not:
            self.could_not.append(sentence)
