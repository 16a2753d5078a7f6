"""Brokers and name servers for operators: how they are, their settings, clean-up, keys and values."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyromq.client.client_session import Session
from pyromq.client.namespaces import wrap
from pyromq.client.plans.admin.scaling_plans import ServerReply
from pyromq.client.plans.admin.targets import BrokerPlace, places, tell_each, timeout_s
from pyromq.client.steps import Deadline, Plan, ask, must_succeed, request
from pyromq.codes import RequestCode
from pyromq.errors import NetworkError, ProtocolError, PyroError, Refused
from pyromq.wire.bodies.operation_bodies import QueueRows, decode_queue_rows
from pyromq.wire.bodies.registration_bodies import decode_key_values
from pyromq.wire.bodies.running_info import DirectConsumption, decode_direct_consumption
from pyromq.wire.command import Command
from pyromq.wire.headers.group_headers import ConsumeMessageDirectly
from pyromq.wire.headers.namesrv_headers import DeleteKvConfig, GetKvListByNamespace, PutKvConfig
from pyromq.wire.headers.operation_headers import QueryConsumeQueue

#: Settings whose values are never shown; parts of their names, in lower case.
SECRETS = ("password", "secret", "token", "passphrase")
HIDDEN = "******"


@dataclass(frozen=True, slots=True)
class Said:
    """The names and values that one broker or name server answered, or why it did not."""

    place: BrokerPlace
    values: Mapping[str, str]
    error: PyroError | None = None

    @property
    def failure(self) -> str | None:
        """The reason why it did not answer, in words."""
        return None if self.error is None else str(self.error)


def broker_status(
    session: Session, deadline: Deadline, *, cluster_name: str | None = None, address: str | None = None
) -> Plan[list[Said]]:
    """Return what each broker says of itself: one, those of a cluster, or all; slaves too."""
    return (yield from _each(session, deadline, RequestCode.GET_BROKER_RUNTIME_INFO, cluster_name, address))


def broker_config(
    session: Session, deadline: Deadline, *, cluster_name: str | None = None, address: str | None = None
) -> Plan[list[Said]]:
    """Return each broker's settings, with the values of those hidden that are secret."""
    return (yield from _each(session, deadline, RequestCode.GET_BROKER_CONFIG, cluster_name, address))


def update_broker_config(
    session: Session,
    changes: Mapping[str, str],
    deadline: Deadline,
    *,
    cluster_name: str | None = None,
    address: str | None = None,
) -> Plan[list[ServerReply]]:
    """Change settings of a broker, or of all masters of a cluster, and return what each said."""
    meant = yield from places(session, deadline, cluster_name=cluster_name, address=address)
    body = _as_properties(changes)
    return (
        yield from tell_each(
            session,
            [place.address for place in meant],
            lambda: request(RequestCode.UPDATE_BROKER_CONFIG, body=body),
        )
    )


def name_server_config(session: Session) -> Plan[list[Said]]:
    """Return the settings of each name server."""
    found = []
    for address in session.name_servers.addresses:
        place = BrokerPlace("", "namesrv", 0, address)
        found.append((yield from _ask(session, place, RequestCode.GET_NAMESRV_CONFIG)))
    return found


def update_name_server_config(session: Session, changes: Mapping[str, str]) -> Plan[list[ServerReply]]:
    """Change settings of every name server, and return what each said."""
    body = _as_properties(changes)
    return (
        yield from tell_each(
            session,
            session.name_servers.addresses,
            lambda: request(RequestCode.UPDATE_NAMESRV_CONFIG, body=body),
        )
    )


def clean(
    session: Session,
    code: RequestCode,
    deadline: Deadline,
    *,
    cluster_name: str | None = None,
    address: str | None = None,
) -> Plan[list[ServerReply]]:
    """Have brokers clean up: queue files (306), queues of topics that are gone (316), old log files (329)."""
    meant = yield from places(session, deadline, cluster_name=cluster_name, address=address)
    return (yield from tell_each(session, [place.address for place in meant], lambda: request(code)))


def put_key_value(session: Session, namespace: str, key: str, value: str | None) -> Plan[list[ServerReply]]:
    """Set a key of a namespace at every name server; None removes it."""

    def command() -> Command:
        if value is None:
            return request(RequestCode.DELETE_KV_CONFIG, DeleteKvConfig(namespace=namespace, key=key))
        return request(RequestCode.PUT_KV_CONFIG, PutKvConfig(namespace=namespace, key=key, value=value))

    return (yield from tell_each(session, session.name_servers.addresses, command))


def key_values(session: Session, namespace: str) -> Plan[dict[str, str]]:
    """Return all keys of a namespace at the first name server that answers."""
    command = request(RequestCode.GET_KVLIST_BY_NAMESPACE, GetKvListByNamespace(namespace=namespace))
    answer = must_succeed((yield from ask(session.name_servers.current, command, timeout_s(session))))
    return decode_key_values(answer.body).table


def queue_entries(
    session: Session, address: str, header: QueryConsumeQueue
) -> Plan[tuple[QueueRows, str | None]]:
    """Return entries of a queue's index on one broker, and what the broker remarks when there are none."""
    command = request(RequestCode.QUERY_CONSUME_QUEUE, header)
    answer = must_succeed((yield from ask(address, command, timeout_s(session))))
    return (decode_queue_rows(answer.body), None) if answer.body else (QueueRows(), answer.remark)


def consume_directly(
    session: Session, address: str, group: str, client_id: str, message_id: str
) -> Plan[DirectConsumption]:
    """Have one consumer consume one message now; the id is the one that the broker gave it."""
    header = ConsumeMessageDirectly(
        consumer_group=wrap(session.settings.namespace, group), client_id=client_id, msg_id=message_id
    )
    command = request(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
    answer = must_succeed((yield from ask(address, command, timeout_s(session) * 10)))
    return decode_direct_consumption(answer.body)


def read_properties(text: str) -> dict[str, str]:
    """Return the names and values of a Java properties text, as servers answer their settings."""
    found = {}
    for line in text.splitlines():
        name, separator, value = line.partition("=")
        if separator and not line.startswith("#"):
            name = name.strip()
            is_secret = value and any(part in name.lower() for part in SECRETS)
            found[name] = HIDDEN if is_secret else value.strip()
    return found


def _each(
    session: Session, deadline: Deadline, code: RequestCode, cluster_name: str | None, address: str | None
) -> Plan[list[Said]]:
    meant = yield from places(session, deadline, cluster_name=cluster_name, address=address, with_slaves=True)
    found = []
    for place in meant:
        found.append((yield from _ask(session, place, code)))
    return found


def _ask(session: Session, place: BrokerPlace, code: RequestCode) -> Plan[Said]:
    try:
        answer = must_succeed((yield from ask(place.address, request(code), timeout_s(session))))
        if code == RequestCode.GET_BROKER_RUNTIME_INFO:
            return Said(place, decode_key_values(answer.body).table)
        return Said(place, read_properties(answer.body.decode("utf-8", "replace")))
    except (NetworkError, Refused, ProtocolError) as error:
        return Said(place, {}, error)


def _as_properties(changes: Mapping[str, str]) -> bytes:
    return "".join(f"{name}={value}\n" for name, value in changes.items()).encode()
