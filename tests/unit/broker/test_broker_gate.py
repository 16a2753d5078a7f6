"""Which requests a master lets pass: by its lease, and by how many replicas there are."""

from typing import Any

import pytest
from route_listing import broker_routes

from pyromq.broker.gate import Gate
from pyromq.broker.route_facts import BrokerRoute, BrokerTable
from pyromq.broker.standing import Lease, Standing
from pyromq.codes import RequestCode
from pyromq.errors import ServiceNotAvailable
from pyromq.net.routes import Request
from pyromq.testing.clock import ManualClock
from pyromq.wire.command import Command

READ, WRITE = RequestCode.PULL_MESSAGE, RequestCode.SEND_MESSAGE


def ask(table: BrokerTable, code: int) -> None:
    request = Request(Command(code), None, None)  # type: ignore[arg-type]  # the guards look at no link
    for guard in table.by_code[code].guards:
        guard(request)


def table_behind(gate: Gate) -> BrokerTable:
    table = BrokerTable(route for route in broker_routes() if route.code in (READ, WRITE))
    gate.put_before(table)
    return table


def test_a_master_without_its_lease_answers_nothing() -> None:
    clock = ManualClock()
    gate = Gate(Lease(clock.monotonic, clock.monotonic() + 3), replica_count=lambda: 1, replicas_min=1)
    table = table_behind(gate)
    ask(table, WRITE)
    assert gate.is_open
    clock.advance(3_000)
    assert not gate.is_open
    for code in (READ, WRITE):
        with pytest.raises(ServiceNotAvailable, match="no longer the master"):
            ask(table, code)


def test_with_too_few_replicas_only_messages_are_refused() -> None:
    count = 2
    gate = Gate(Standing().lease, replica_count=lambda: count, replicas_min=2)
    table = table_behind(gate)
    ask(table, WRITE)
    count = 1
    ask(table, READ)
    assert not gate.is_open
    with pytest.raises(ServiceNotAvailable, match="minInSyncReplicas=2"):
        ask(table, WRITE)


def test_a_master_that_hands_over_takes_no_messages_and_serves_the_rest() -> None:
    gate = Gate(Standing().lease, replica_count=lambda: 1, replicas_min=1)
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
    lacking = Gate(Standing().lease, replica_count=lambda: 1, replicas_min=2)
    leaving = Gate(Standing().lease, replica_count=lambda: 1, replicas_min=1)
    leaving.is_handing_over = True
    for gate in (lacking, leaving):
        table = BrokerTable([route])
        gate.put_before(table)
        if route.writes:
            with pytest.raises(ServiceNotAvailable):
                ask(table, route.code)
        else:
            ask(table, route.code)
