"""Heartbeats, unregistration, and the member lists of groups."""

import logging
from weakref import WeakKeyDictionary

from pyromq.broker.delivery.sql_filters import FilterTable, forget_expressions
from pyromq.broker.groups.clients import ClientChannel, ConsumerGroup, MemberLink
from pyromq.broker.groups.group_room import Groups
from pyromq.broker.groups.subscription_conflicts import Ruling
from pyromq.broker.topics import topic_names
from pyromq.broker.topics.topics import TopicTable
from pyromq.clock import Clock
from pyromq.codes import ResponseCode, TopicSysFlag
from pyromq.errors import NoPermission, ServerFailed
from pyromq.net.routes import Answer, Request
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart, decode_client_config_check, decode_heartbeat
from pyromq.wire.bodies.lock_bodies import encode_consumer_ids
from pyromq.wire.headers.group_headers import GetConsumerListByGroup, UnregisterClient

log = logging.getLogger(__name__)


class PresenceHandlers:
    """Answers HEART_BEAT, UNREGISTER_CLIENT, GET_CONSUMER_LIST_BY_GROUP and CHECK_CLIENT_CONFIG."""

    def __init__(self, groups: Groups, topics: TopicTable, filters: FilterTable, clock: Clock) -> None:
        self._groups = groups.table
        self._producers = groups.producers
        self._consumers = groups.consumers
        self._membership = groups.membership
        self._conflicts = groups.conflicts
        self._locks = groups.locks
        self._topics = topics
        self._filters = filters
        self._clock = clock
        #: Which links were told that their client id is another account's: it is logged once.
        self._told_ids: WeakKeyDictionary[MemberLink, str] = WeakKeyDictionary()

    def heartbeat(self, request: Request[None]) -> Answer:
        """Note which groups a client is in; members of a group that changed are told before the answer.

        A client that may not be in one of its groups is refused after it was let into the others. The answer
        to a member of a group whose members subscribe differently says so in its remark.
        """
        command = request.command
        heartbeat = decode_heartbeat(command.body)
        client = ClientChannel(
            request.link,
            heartbeat.client_id,
            command.language,
            command.version,
            self._clock.now_ms(),
            request.caller,
        )
        for part in heartbeat.consumers:
            self._ensure_retry_topic(part)
            self._locks.joined(part.group_name, client.client_id)
            self.join(client, part)
        has_its_id = [self._producers.register(client, part.group_name) for part in heartbeat.producers]
        names = [part.group_name for part in heartbeat.consumers]
        refusals = [text for name in names if (text := self._conflicts.refusal(name, request.link))]
        if refusals:
            raise NoPermission(ResponseCode.NO_PERMISSION, "; ".join(refusals))
        warnings = [text for name in names if (text := self._conflicts.warning(name))]
        if not all(has_its_id):
            warnings.append(self._id_is_anothers(client))
        return Answer(remark="; ".join(warnings) if warnings else None)

    def _id_is_anothers(self, client: ClientChannel) -> str:
        text = (
            f"the client id {client.client_id} is in use by another account, which gets its replies; "
            "give each client an instanceName of its own"
        )
        if self._told_ids.get(client.link) != client.client_id:
            self._told_ids[client.link] = client.client_id
            log.warning("%s: %s", client.link.peer, text)
        return text

    def unregister(self, request: Request[UnregisterClient]) -> Answer:
        """Take a client out of the groups that it names; the queues that it locked are free."""
        header = request.header
        if header.producer_group is not None:
            self._producers.leave(header.producer_group, request.link)
        if header.consumer_group is not None:
            self._release_queues(header.consumer_group, request.link)
            self.leave(header.consumer_group, request.link)
        return Answer(ext={})

    def join(self, client: ClientChannel, part: ConsumerPart) -> None:
        """Note that a client is in a consumer group, and tell the members if that changed the group."""
        self._apply(part.group_name, self._conflicts.note(client, part))

    def _release_queues(self, name: str, link: MemberLink) -> None:
        """Unlock a leaving member's queues, before the others hear of it, unless another has the same id.

        A connection that merely ends keeps its locks: its client may come back, and is busy meanwhile.
        """
        group = self._consumers.get(name)
        client = None if group is None else group.members.get(link)
        if group is not None and client is not None and group.client_ids.count(client.client_id) == 1:
            self._locks.left(name, client.client_id)

    def consumer_list(self, request: Request[GetConsumerListByGroup]) -> Answer:
        """Answer the ids of a group's members."""
        name = request.header.consumer_group
        group = self._consumers.get(name)
        if group is None:
            raise ServerFailed(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {name}")
        return Answer(ext={}, body=encode_consumer_ids(group.client_ids))

    def check_client_config(self, request: Request[None]) -> Answer:
        """Say whether the broker can filter as a consumer wants."""
        subscription = decode_client_config_check(request.body).subscription
        if subscription is not None and self._filters.check(subscription.expression_type):
            self._filters.test(subscription.sub_string)
        return Answer()

    def link_closed(self, link: MemberLink) -> None:
        """Take a connection that has ended out of all its groups, and tell those who stay."""
        self._producers.leave_all(link)
        for name in self._consumers.names_of(link):
            self.leave(name, link)
        for name, ruling in self._conflicts.leave_all(link):
            self._apply(name, ruling)

    def leave(self, name: str, link: MemberLink) -> None:
        """Take a member out of a consumer group, and tell those who stay."""
        group = self._consumers.leave(name, link)
        if group is not None:
            self._left(group)
        self._apply(name, self._conflicts.leave(name, link))

    def _left(self, group: ConsumerGroup) -> None:
        if not group.members:
            self._filters.group_left(group.name)
            forget_expressions(group.subscriptions.values())
        self._membership.notify(group)

    def _apply(self, name: str, ruling: Ruling) -> None:
        """Let members out of a group and into it, and tell whomever that concerns."""
        left = [self._consumers.leave(name, link) for link in ruling.expelled]
        if ruling.expelled:
            # What the kernel has learnt of the group's pulls, it answers to whoever asks.
            self._consumers.changed(name)
        if ruling.is_turned:
            self._filters.forget(name)
            self._consumers.forget_subscriptions(name)
        is_changed = any(left)
        for client, part in ruling.admitted:
            is_changed |= self._consumers.register(client, part)
            self._filters.register(name, part.subscriptions)
        group = self._consumers.get(name)
        if is_changed and group is not None:
            self._membership.notify(group)
        for link in ruling.expelled:
            if (reason := self._conflicts.refusal(name, link)) is not None:
                self._membership.warn(name, [link], reason)

    def _ensure_retry_topic(self, part: ConsumerPart) -> None:
        config = self._groups.find(part.group_name)
        if config is not None:
            self._topics.ensure(
                topic_names.retry_topic(part.group_name),
                queue_count=config.retry_queue_nums,
                sys_flag=TopicSysFlag.UNIT_SUB if part.unit_mode else 0,
            )
