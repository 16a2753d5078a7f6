"""The state of a consumer group: its members, what each wants and does, and whether they want the same.

Every broker of the group's retry topic is asked who is connected (203), and each member what it does (307,
which the broker passes on). What differs is found out here, so it is found on Apache's brokers too; ours add
what they have noticed themselves, and whom they refuse.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pyromq.client.client_session import Session
from pyromq.client.names import RETRY_TOPIC_PREFIX
from pyromq.client.namespaces import wrap
from pyromq.client.plans.admin import lookups as admin
from pyromq.client.plans.route_plans import fetch_route
from pyromq.client.route_cache import MASTER_ID
from pyromq.client.steps import Deadline, Plan, ask, must_succeed, request
from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import NetworkError, ProtocolError, Refused, TopicNotFound
from pyromq.filter.agreement import Disagreement, Stance, find_conflict, want
from pyromq.wire.bodies.connection_bodies import (
    ConsumerConnections,
    MemberConnection,
    SubscriptionConflict,
    decode_consumer_connections,
)
from pyromq.wire.bodies.route_bodies import BrokerData
from pyromq.wire.bodies.running_info import RunningState, decode_running_state
from pyromq.wire.headers.admin_headers import GetConsumerConnectionList
from pyromq.wire.headers.group_headers import GetConsumerRunningInfo

#: Milliseconds that a member has to answer; brokers wait for 10,000 of them.
MEMBER_MS: Final = 12_000
_STARTED: Final = "PROP_CONSUMER_START_TIMESTAMP"


@dataclass(frozen=True, slots=True)
class StatusQuery:
    """The scope of a question: a group, one broker only, one member only, with the stacks of its threads."""

    group: str
    broker_address: str | None = None
    client_id: str | None = None
    with_stacks: bool = False


@dataclass(slots=True)
class MemberStatus:
    """One member: its connection, the brokers that know it, and what it says of itself or why it does not."""

    connection: MemberConnection
    brokers: list[str] = field(default_factory=list)
    state: RunningState | None = None
    failure: str | None = None

    @property
    def started_ms(self) -> int:
        """The time at which the member began, as it says; 0 if it does not say."""
        text = self.state.properties.get(_STARTED, "") if self.state is not None else ""
        return int(text) if text.isdecimal() else 0


@dataclass(slots=True)
class ConsumerStatus:
    """A group as all its brokers see it. `reports` are what brokers of ours have noticed, by broker."""

    group: str
    consume_type: str = ""
    message_model: str = ""
    members: list[MemberStatus] = field(default_factory=list)
    conflict: Disagreement | None = None
    reports: dict[str, SubscriptionConflict] = field(default_factory=dict)
    #: Brokers that did not answer, and why.
    silent: dict[str, str] = field(default_factory=dict)

    @property
    def is_consistent(self) -> bool:
        """Whether nothing was found that members want differently."""
        return self.conflict is None and not self.reports

    def told_apart_by(self, setting: str) -> dict[str, list[str]]:
        """Return the members' ids by what they say that a setting of theirs is."""
        found: dict[str, list[str]] = {}
        for member in self.members:
            if member.state is not None and (value := member.state.properties.get(setting)):
                found.setdefault(value, []).append(member.connection.client_id)
        return found


def consumer_status(session: Session, query: StatusQuery, deadline: Deadline) -> Plan[ConsumerStatus]:
    """Return a group's state; raise Refused with CONSUMER_NOT_ONLINE when it has no member."""
    group = wrap(session.settings.namespace, query.group)
    brokers = yield from _brokers(session, query, group, deadline)
    status = ConsumerStatus(group)
    found: dict[str, tuple[MemberStatus, str]] = {}
    for name, address in brokers.items():
        try:
            answer = yield from _connections(group, address, deadline)
        except (NetworkError, Refused) as error:
            status.silent[name] = str(error)
            continue
        if answer is not None:
            _merge(status, found, name, address, answer)
    if not found and not status.reports:
        raise _not_online(group, brokers, status)
    for member, address in found.values():
        if query.client_id in (None, member.connection.client_id):
            yield from _ask_member(session, query, group, member, address)
    status.members = [member for member, _ in sorted(found.values(), key=_age)]
    status.conflict = find_conflict(
        (member.connection.client_id, stance_of(member.state, status.message_model))
        for member in status.members
        if member.state is not None
    )
    return status


def _brokers(session: Session, query: StatusQuery, group: str, deadline: Deadline) -> Plan[dict[str, str]]:
    """Return the brokers to ask, by name: those of the group's retry topic; all, if it has none."""
    if query.broker_address is not None:
        return {query.broker_address: query.broker_address}
    try:
        route = yield from fetch_route(session, RETRY_TOPIC_PREFIX + group, deadline)
        brokers = route.broker_datas
    except TopicNotFound:
        brokers = list((yield from admin.cluster(session, deadline)).broker_addr_table.values())
    return {
        broker.broker_name: _address(broker)
        for broker in sorted(brokers, key=lambda broker: broker.broker_name)
        if broker.broker_addrs
    }


def _address(broker: BrokerData) -> str:
    return broker.broker_addrs.get(MASTER_ID) or next(iter(broker.broker_addrs.values()))


def _connections(group: str, address: str, deadline: Deadline) -> Plan[ConsumerConnections | None]:
    command = request(
        RequestCode.GET_CONSUMER_CONNECTION_LIST, GetConsumerConnectionList(consumer_group=group)
    )
    answer = yield from ask(address, command, deadline.part_s(deadline.timeout_ms))
    if answer.code == ResponseCode.CONSUMER_NOT_ONLINE:
        return None
    return decode_consumer_connections(must_succeed(answer).body)


def _merge(
    status: ConsumerStatus,
    found: dict[str, tuple[MemberStatus, str]],
    broker_name: str,
    address: str,
    answer: ConsumerConnections,
) -> None:
    status.consume_type, status.message_model = answer.consume_type, answer.message_model
    if answer.conflict is not None:
        status.reports[broker_name] = answer.conflict
    for connection in answer.connections:
        member, _ = found.setdefault(connection.client_id, (MemberStatus(connection), address))
        member.brokers.append(broker_name)


def _ask_member(
    session: Session, query: StatusQuery, group: str, member: MemberStatus, address: str
) -> Plan[None]:
    header = GetConsumerRunningInfo(
        consumer_group=group, client_id=member.connection.client_id, jstack_enable=query.with_stacks
    )
    deadline = session.deadline(None, MEMBER_MS)
    command = request(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
    try:
        answer = must_succeed((yield from ask(address, command, deadline.part_s(MEMBER_MS))))
        member.state = decode_running_state(answer.body)
    except (NetworkError, Refused, ProtocolError) as error:
        # A member that left just now, or one that does not know the request: the others' words still count.
        member.failure = str(error)


def stance_of(state: RunningState, model: str) -> Stance:
    """Return what a member says that it wants; by the group's model if it does not say by which."""
    return Stance(
        state.properties.get("messageModel", model),
        frozenset(
            want(each.topic, each.sub_string, each.expression_type, is_class=each.class_filter_mode)
            for each in state.subscriptions
        ),
    )


def _age(found: tuple[MemberStatus, str]) -> tuple[int, str]:
    member, _ = found
    return member.started_ms, member.connection.client_id


def _not_online(group: str, brokers: Mapping[str, str], status: ConsumerStatus) -> Exception:
    said = "".join(f"; {name} did not answer: {why}" for name, why in status.silent.items())
    return Refused(
        ResponseCode.CONSUMER_NOT_ONLINE,
        f"no consumer of group {group} is connected to {', '.join(brokers) or 'any broker'}{said}",
    )
