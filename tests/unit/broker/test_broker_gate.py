"""Which requests a master lets pass: by its lease, and by how many replicas there are."""

from typing import Any, cast

import pytest
from route_listing import broker_routes

from pyromq.broker.durability.acknowledgement import Durability, Lease
from pyromq.broker.requests.route_facts import BrokerRoute, BrokerTable
from pyromq.codes import RequestCode
from pyromq.config.settings import StoreSettings
from pyromq.errors import ServiceNotAvailable
from pyromq.net.routes import Request
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.command import Command


class Group:
    """Stands for a log and the slaves that copy it."""

    flushed_position = 0
    is_alone = False

    def __init__(self, replica_count: int = 1) -> None:
        self.replica_count = replica_count
        self.followers = self
        self.links = ()


def gate_of(group: Group, *, replicas_min: int = 1, lease: Lease | None = None) -> Durability:
    settings = StoreSettings(min_in_sync_replicas=replicas_min)
    log = slaves = cast("Any", group)
    return Durability(log, settings, ManualClock(), lease=lease, slaves=slaves)


READ, WRITE = RequestCode.PULL_MESSAGE, RequestCode.SEND_MESSAGE


def ask(table: BrokerTable, code: int) -> None:
    request = Request(Command(code), None, None)  # type: ignore[arg-type]  # the guards look at no link
    for guard in table.by_code[code].guards:
        guard(request)


def table_behind(gate: Durability) -> BrokerTable:
    table = BrokerTable(route for route in broker_routes() if route.code in (READ, WRITE))
    gate.put_before(table)
    return table


def test_a_master_without_its_lease_answers_nothing() -> None:
    clock = ManualClock()
    gate = gate_of(Group(), lease=Lease(clock.monotonic, clock.monotonic() + 3))
    table = table_behind(gate)
    ask(table, WRITE)
    assert gate.is_open()
    clock.advance(3_000)
    assert not gate.is_open()
    for code in (READ, WRITE):
        with pytest.raises(ServiceNotAvailable, match="no longer the master"):
            ask(table, code)


def test_with_too_few_replicas_only_messages_are_refused() -> None:
    group = Group(2)
    gate = gate_of(group, replicas_min=2)
    table = table_behind(gate)
    ask(table, WRITE)
    group.replica_count = 1
    ask(table, READ)
    assert not gate.is_open()
    with pytest.raises(ServiceNotAvailable, match="minInSyncReplicas=2"):
        ask(table, WRITE)


def test_a_master_that_hands_over_takes_no_messages_and_serves_the_rest() -> None:
    gate = gate_of(Group())
    table = table_behind(gate)
    gate.is_handing_over = True
    ask(table, READ)
    with pytest.raises(ServiceNotAvailable):
        ask(table, WRITE)


def test_every_request_that_a_broker_answers_and_that_stores_is_known() -> None:
    names = {code.name for code in RequestCode}
    storing = {name for name in names if name.startswith("SEND_") or "STAGE" in name}
    writing = {route.code for route in broker_routes() if route.writes}
    assert {RequestCode[name] for name in storing} - writing == {RequestCode.STAGED_STATUS}


@pytest.mark.parametrize("route", broker_routes(), ids=lambda route: str(int(route.code)))
def test_exactly_what_writes_is_held_back_by_replicas_and_by_a_hand_over(route: BrokerRoute[Any]) -> None:
    lacking = gate_of(Group(), replicas_min=2)
    leaving = gate_of(Group())
    leaving.is_handing_over = True
    for gate in (lacking, leaving):
        table = BrokerTable([route])
        gate.put_before(table)
        if route.writes:
            with pytest.raises(ServiceNotAvailable):
                ask(table, route.code)
        else:
            ask(table, route.code)
