"""The connected clients, by group.

Heartbeats say which producer and consumer groups a connection is in. A connection leaves a group when it
says so, when it closes, or when it is silent for two minutes. A consumer group lives as long as it has a
member; its subscriptions are those of the last heartbeat, whichever member sent it.

A client's id is what it says itself. With access control it belongs to the account whose connection said it
first, as long as that connection lives: replies go there, whoever else says the same.
"""

from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from msgspec.structs import replace

from pyromq.clock import Clock
from pyromq.net.routes import Caller
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart, Subscription
from pyromq.wire.command import Command


class MemberLink(Hashable, Protocol):
    """The way to a member: a connection, or a client of another protocol."""

    @property
    def peer(self) -> str:
        """Its address, `host:port`."""
        ...

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent to it."""
        ...

    def oneway(self, command: Command) -> None:
        """Send a request that wants no answer."""
        ...

    async def request(self, command: Command, timeout_s: float) -> Command:
        """Send a request and return its answer; raise NetworkError when none comes."""
        ...

    def close(self) -> None:
        """Let it go."""
        ...


@dataclass(slots=True, eq=False)
class ClientChannel:
    """One connection's part in one group; `caller` is who sent its last heartbeat."""

    link: MemberLink
    client_id: str
    language: int
    version: int
    seen_at_ms: int
    caller: Caller | None = None

    @property
    def account(self) -> str | None:
        """Whose it is; None where there is no access control."""
        return None if self.caller is None else self.caller.name


@dataclass(slots=True, eq=False)
class ConsumerGroup:
    """The members of a group and what they subscribe to."""

    name: str
    consume_type: str
    message_model: str
    consume_from_where: str
    members: dict[MemberLink, ClientChannel] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    #: Raised when the group's pulls may get something else: by its model, or by what a subscription says.
    revision: int = 0

    @property
    def links(self) -> list[MemberLink]:
        """The members' connections."""
        return list(self.members)

    @property
    def client_ids(self) -> list[str]:
        """The members' ids."""
        return [client.client_id for client in self.members.values()]

    def member(self, client_id: str) -> ClientChannel | None:
        """Return the member with this id."""
        return next((client for client in self.members.values() if client.client_id == client_id), None)

    def subscribe(self, subscriptions: Iterable[Subscription]) -> bool:
        """Take over a heartbeat's subscriptions and return whether topics came or went.

        An older version of a known subscription is ignored. A newer one is taken without a notification:
        the members' queues stay the same.
        """
        wanted = {subscription.topic: subscription for subscription in subscriptions}
        is_changed = wanted.keys() != self.subscriptions.keys()
        if is_changed:
            self.revision += 1
        for topic in self.subscriptions.keys() - wanted.keys():
            del self.subscriptions[topic]
        for topic, subscription in wanted.items():
            known = self.subscriptions.get(topic)
            if known is None or subscription.sub_version > known.sub_version:
                self.subscriptions[topic] = subscription
                # Each member has a version of its own: that alone changes nothing for those that pull.
                if known is None or known != replace(subscription, sub_version=known.sub_version):
                    self.revision += 1
        return is_changed


class Consumers:
    """The consumer groups that have members."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._groups: dict[str, ConsumerGroup] = {}
        #: The groups that a connection is in: its end must not cost a look into all groups.
        self._names: dict[MemberLink, list[str]] = {}
        #: One number for each group that somebody follows; see `revision`.
        self._revisions: dict[str, array[int]] = {}

    @property
    def groups(self) -> Mapping[str, ConsumerGroup]:
        """The groups by name; not to be changed."""
        return self._groups

    def get(self, group: str) -> ConsumerGroup | None:
        """Return a group that has members."""
        return self._groups.get(group)

    def revision(self, group: str) -> "array[int]":
        """Return one number, an int64, that is raised when the group's pulls may get something else.

        It costs one look to see that nothing changed, and the changes of other groups are not seen.
        """
        return self._revisions.setdefault(group, array("q", (0,)))

    def changed(self, group: str) -> None:
        """Note that the group's pulls may get something else; nobody follows its old number any more."""
        revision = self._revisions.pop(group, None)
        if revision is not None:
            revision[0] += 1

    def register(self, client: ClientChannel, part: ConsumerPart) -> bool:
        """Note a member's heartbeat; return whether members or topics of the group changed by it."""
        group = self._groups.get(part.group_name)
        if group is None:
            group = ConsumerGroup(
                part.group_name, part.consume_type, part.message_model, part.consume_from_where
            )
            self._groups[part.group_name] = group
            self.changed(part.group_name)
        before = group.revision
        if group.message_model != part.message_model:
            group.revision += 1
        group.consume_type = part.consume_type
        group.message_model = part.message_model
        group.consume_from_where = part.consume_from_where
        is_new = client.link not in group.members
        if is_new:
            self._names.setdefault(client.link, []).append(part.group_name)
        group.members[client.link] = client
        is_changed = group.subscribe(part.subscriptions)
        if group.revision != before:
            self.changed(part.group_name)
        return is_changed or is_new

    def forget_subscriptions(self, group_name: str) -> None:
        """Take over what the next heartbeat says, even if it is older than what is known."""
        group = self._groups.get(group_name)
        if group is not None:
            group.subscriptions.clear()
        self.changed(group_name)

    def leave(self, group_name: str, link: MemberLink) -> ConsumerGroup | None:
        """Take a connection out of a group; return the group, as it is now, if the connection was in it."""
        group = self._groups.get(group_name)
        if group is None or group.members.pop(link, None) is None:
            return None
        _forget(self._names, link, group_name)
        if not group.members:
            del self._groups[group_name]
            self.changed(group_name)
        return group

    def names_of(self, link: MemberLink) -> tuple[str, ...]:
        """Return the groups that a connection is in."""
        return tuple(self._names.get(link, ()))

    def silent_links(self, silence_ms: int) -> dict[MemberLink, None]:
        """Return the connections that sent no heartbeat for longer than that."""
        members = (client for group in self._groups.values() for client in group.members.values())
        return _silent(members, self._clock.now_ms() - silence_ms)


class Producers:
    """The producer groups, and every producer by its id: replies are pushed to it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._groups: dict[str, dict[MemberLink, ClientChannel]] = {}
        self._names: dict[MemberLink, list[str]] = {}
        #: Who has an id, and which id a connection has: the last one that it said.
        self._by_id: dict[str, ClientChannel] = {}
        self._ids: dict[MemberLink, str] = {}
        self._turns = count()

    @property
    def groups(self) -> Mapping[str, Mapping[MemberLink, ClientChannel]]:
        """The members by group and connection; not to be changed."""
        return self._groups

    def register(self, client: ClientChannel, group: str) -> bool:
        """Note a member's heartbeat; return whether its id is its own, and not another account's."""
        members = self._groups.setdefault(group, {})
        if client.link not in members:
            self._names.setdefault(client.link, []).append(group)
        members[client.link] = client
        return self._hold_id(client)

    def _hold_id(self, client: ClientChannel) -> bool:
        link, name = client.link, client.client_id
        if self._ids.get(link, name) != name:
            self._let_id_go(link)
        holder = self._by_id.get(name)
        if holder is not None and holder.link is not link and not holder.link.closed:
            if holder.account != client.account:
                return False
            # It connected again, and its last connection is not known to have ended.
            self._let_id_go(holder.link)
        self._by_id[name], self._ids[link] = client, name
        return True

    def _let_id_go(self, link: MemberLink) -> None:
        name = self._ids.pop(link, None)
        if name is not None and self._by_id[name].link is link:
            del self._by_id[name]

    def leave(self, group: str, link: MemberLink) -> None:
        """Take a connection out of a group."""
        members = self._groups.get(group)
        if members is None:
            return
        if members.pop(link, None) is None:
            return
        _forget(self._names, link, group)
        if link not in self._names:
            self._let_id_go(link)
        if not members:
            del self._groups[group]

    def leave_all(self, link: MemberLink) -> None:
        """Take a closed connection out of all groups."""
        for group in tuple(self._names.get(link, ())):
            self.leave(group, link)

    def link_of(self, client_id: str) -> MemberLink | None:
        """Return the connection of the producer with this id."""
        client = self._by_id.get(client_id)
        return None if client is None else client.link

    def any_link(
        self, group: str, is_wanted: Callable[[ClientChannel], bool] = lambda _: True
    ) -> MemberLink | None:
        """Return a member's connection, another one each time: transactions are asked about in turns."""
        members = self._groups.get(group, {}).values()
        links = [client.link for client in members if not client.link.closed and is_wanted(client)]
        return links[next(self._turns) % len(links)] if links else None

    def silent_links(self, silence_ms: int) -> dict[MemberLink, None]:
        """Return the connections that sent no heartbeat for longer than that."""
        members = (client for group in self._groups.values() for client in group.values())
        return _silent(members, self._clock.now_ms() - silence_ms)


def _silent(clients: Iterator[ClientChannel], before_ms: int) -> dict[MemberLink, None]:
    return {client.link: None for client in clients if client.seen_at_ms < before_ms}


def _forget(names: dict[MemberLink, list[str]], link: MemberLink, name: str) -> None:
    names[link].remove(name)
    if not names[link]:
        del names[link]
