"""Who is connected, and until when.

Heartbeats say which producer and consumer groups a connection is in. A connection leaves a group when it
says so, when it closes, or when it is silent for two minutes. A consumer group lives as long as it has a
member; its subscriptions are those of the last heartbeat, whichever member sent it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from pyromq.clock import Clock
from pyromq.net.link import Link
from pyromq.wire.bodies.heartbeat import ConsumerPart, Subscription


@dataclass(slots=True, eq=False)
class Client:
    """One connection's part in one group."""

    link: Link
    client_id: str
    language: int
    version: int
    seen_at_ms: int


@dataclass(slots=True, eq=False)
class ConsumerGroup:
    """The members of a group and what they subscribe to."""

    name: str
    consume_type: str
    message_model: str
    consume_from_where: str
    members: dict[Link, Client] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)

    @property
    def links(self) -> list[Link]:
        """The members' connections."""
        return list(self.members)

    @property
    def client_ids(self) -> list[str]:
        """The members' ids."""
        return [client.client_id for client in self.members.values()]

    def member(self, client_id: str) -> Client | None:
        """Return the member with this id."""
        return next((client for client in self.members.values() if client.client_id == client_id), None)

    def has_all(self, subscriptions: Sequence[Subscription]) -> bool:
        """Return whether a heartbeat's subscriptions are those that are known."""
        return len(subscriptions) == len(self.subscriptions) and all(
            self.subscriptions.get(subscription.topic) == subscription for subscription in subscriptions
        )

    def subscribe(self, subscriptions: Iterable[Subscription]) -> bool:
        """Take over a heartbeat's subscriptions and return whether topics came or went.

        An older version of a known subscription is ignored. A newer one is taken without a notification:
        the members' queues stay the same.
        """
        wanted = {subscription.topic: subscription for subscription in subscriptions}
        is_changed = wanted.keys() != self.subscriptions.keys()
        for topic in self.subscriptions.keys() - wanted.keys():
            del self.subscriptions[topic]
        for topic, subscription in wanted.items():
            known = self.subscriptions.get(topic)
            if known is None or subscription.sub_version > known.sub_version:
                self.subscriptions[topic] = subscription
        return is_changed


class Consumers:
    """The consumer groups that have members."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._groups: dict[str, ConsumerGroup] = {}
        #: The groups that a connection is in: its end must not cost a look into all groups.
        self._names: dict[Link, list[str]] = {}
        #: A number that each change of a group's model or subscriptions raises.
        self.revision = 0

    @property
    def groups(self) -> Mapping[str, ConsumerGroup]:
        """The groups by name; not to be changed."""
        return self._groups

    def get(self, group: str) -> ConsumerGroup | None:
        """Return a group that has members."""
        return self._groups.get(group)

    def register(self, client: Client, part: ConsumerPart) -> bool:
        """Note a member's heartbeat; return whether members or topics of the group changed by it."""
        group = self._groups.get(part.group_name)
        if group is None:
            group = ConsumerGroup(
                part.group_name, part.consume_type, part.message_model, part.consume_from_where
            )
            self._groups[part.group_name] = group
        if group.message_model != part.message_model or not group.has_all(part.subscriptions):
            self.revision += 1
        group.consume_type = part.consume_type
        group.message_model = part.message_model
        group.consume_from_where = part.consume_from_where
        is_new = client.link not in group.members
        if is_new:
            self._names.setdefault(client.link, []).append(part.group_name)
        group.members[client.link] = client
        return group.subscribe(part.subscriptions) or is_new

    def forget_subscriptions(self, group_name: str) -> None:
        """Take over what the next heartbeat says, even if it is older than what is known."""
        group = self._groups.get(group_name)
        if group is not None:
            group.subscriptions.clear()
        self.revision += 1

    def leave(self, group_name: str, link: Link) -> ConsumerGroup | None:
        """Take a connection out of a group; return the group, as it is now, if the connection was in it."""
        group = self._groups.get(group_name)
        if group is None or group.members.pop(link, None) is None:
            return None
        _forget(self._names, link, group_name)
        if not group.members:
            del self._groups[group_name]
            self.revision += 1
        return group

    def names_of(self, link: Link) -> tuple[str, ...]:
        """Return the groups that a connection is in."""
        return tuple(self._names.get(link, ()))

    def silent_links(self, silence_ms: int) -> set[Link]:
        """Return the connections that sent no heartbeat for longer than that."""
        members = (client for group in self._groups.values() for client in group.members.values())
        return _silent(members, self._clock.now_ms() - silence_ms)


class Producers:
    """The producer groups, and every producer by its id: replies are pushed to it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._groups: dict[str, dict[Link, Client]] = {}
        self._names: dict[Link, list[str]] = {}
        self._links: dict[str, Link] = {}
        self._turns = count()

    @property
    def groups(self) -> Mapping[str, Mapping[Link, Client]]:
        """The members by group and connection; not to be changed."""
        return self._groups

    def register(self, client: Client, group: str) -> None:
        """Note a member's heartbeat."""
        members = self._groups.setdefault(group, {})
        if client.link not in members:
            self._names.setdefault(client.link, []).append(group)
        members[client.link] = client
        self._links[client.client_id] = client.link

    def leave(self, group: str, link: Link) -> None:
        """Take a connection out of a group."""
        members = self._groups.get(group)
        if members is None:
            return
        client = members.pop(link, None)
        if client is None:
            return
        _forget(self._names, link, group)
        if self._links.get(client.client_id) is link:
            del self._links[client.client_id]
        if not members:
            del self._groups[group]

    def leave_all(self, link: Link) -> None:
        """Take a closed connection out of all groups."""
        for group in tuple(self._names.get(link, ())):
            self.leave(group, link)

    def link_of(self, client_id: str) -> Link | None:
        """Return the connection of the producer with this id."""
        return self._links.get(client_id)

    def any_link(self, group: str) -> Link | None:
        """Return a member's connection, another one each time: transactions are asked about in turns."""
        links = [link for link in self._groups.get(group, ()) if not link.closed]
        return links[next(self._turns) % len(links)] if links else None

    def silent_links(self, silence_ms: int) -> set[Link]:
        """Return the connections that sent no heartbeat for longer than that."""
        members = (client for group in self._groups.values() for client in group.values())
        return _silent(members, self._clock.now_ms() - silence_ms)


def _silent(clients: Iterator[Client], before_ms: int) -> set[Link]:
    return {client.link for client in clients if client.seen_at_ms < before_ms}


def _forget(names: dict[Link, list[str]], link: Link, name: str) -> None:
    names[link].remove(name)
    if not names[link]:
        del names[link]
