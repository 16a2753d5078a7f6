"""An operator's requests to a group of replicas with failover: its members, and a switch of the master."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyromq.client.client_session import Session
from pyromq.client.plans.admin.scaling_plans import broker_of
from pyromq.client.plans.route_plans import cluster
from pyromq.client.route_cache import MASTER_ID
from pyromq.client.steps import Deadline, Pause, Plan, ask, must_succeed, request
from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import NetworkError, NoRoute, ProtocolError, Refused
from pyromq.wire.bodies.replica_bodies import ReplicaList, decode_replicas
from pyromq.wire.bodies.route_bodies import BrokerData
from pyromq.wire.header import read_header
from pyromq.wire.headers.replica_headers import SwitchMaster, SwitchMasterAnswer

#: Seconds between looks whether the new master is there.
LOOK_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Switched:
    """A switch that was made."""

    before: str
    after: ReplicaList


def list_replicas(
    session: Session, broker_name: str | None, deadline: Deadline
) -> Plan[list[tuple[str, ReplicaList | None, str]]]:
    """Return each group's name with what its master says, or another of it if that does not answer.

    Where nobody could say anything, the reason is the third.
    """
    table = yield from cluster(session, deadline)
    names = [broker_name] if broker_name is not None else sorted(table.broker_addr_table)
    found = []
    for name in names:
        listed, reason = yield from _ask_any(session, _in_turn(broker_of(table, name)))
        found.append((name, listed, reason))
    return found


def switch_master(
    session: Session, broker_name: str, new_master: str | None, deadline: Deadline
) -> Plan[Switched]:
    """Have the master hand over, and return when the new one is there. Raises Refused with the reason."""
    table = yield from cluster(session, deadline)
    broker = broker_of(table, broker_name)
    master = broker.broker_addrs.get(MASTER_ID)
    if master is None:
        raise NoRoute(f"{broker_name} has no master that could hand over")
    command = request(RequestCode.SWITCH_MASTER, SwitchMaster(new_master=new_master))
    answer = yield from ask(master, command, deadline.part_s(deadline.timeout_ms))
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        raise Refused(answer.code, f"{master} runs without failover (--failover): its role is fixed")
    successor = read_header(SwitchMasterAnswer, must_succeed(answer).ext).new_master
    while True:
        listed, _ = yield from _ask_any(session, [successor])
        if listed is not None and listed.master == successor and listed.confirmed_position is not None:
            return Switched(master, listed)
        deadline.part_s(deadline.timeout_ms)
        yield Pause(LOOK_S)


def _in_turn(broker: BrokerData) -> list[str]:
    return [address for _, address in sorted(broker.broker_addrs.items())]


def _ask_any(session: Session, addresses: Sequence[str]) -> Plan[tuple[ReplicaList | None, str]]:
    timeout_s = session.settings.mq_client_api_timeout / 1_000
    reason = "nobody of it is there"
    for address in addresses:
        try:
            answer = yield from ask(address, request(RequestCode.LIST_REPLICAS), timeout_s)
            if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                reason = "runs without failover: its roles are fixed"
                continue
            return decode_replicas(must_succeed(answer).body), ""
        except (NetworkError, Refused, ProtocolError) as error:
            reason = f"{address}: {error}"
    return None, reason
