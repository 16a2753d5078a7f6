"""Which requests a master lets pass: by its lease, and by how many replicas there are."""

import pytest

from pyromq.broker.gate import WRITES, Gate
from pyromq.broker.standing import Lease, Standing
from pyromq.codes import RequestCode
from pyromq.errors import ServiceNotAvailable
from pyromq.net.routes import Answer, Request, Route, RouteTable
from pyromq.testing.clock import ManualClock
from pyromq.wire.command import Command

READ, WRITE = RequestCode.PULL_MESSAGE, RequestCode.SEND_MESSAGE


def ask(table: RouteTable, code: int) -> None:
    request = Request(Command(code), None, None)  # type: ignore[arg-type]  # the guards look at no link
    for guard in table.by_code[code].guards:
        guard(request)


def table_behind(gate: Gate) -> RouteTable:
    table = RouteTable([Route(code, lambda _request: Answer()) for code in (READ, WRITE)])
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
    assert {RequestCode[name] for name in storing} - WRITES == {RequestCode.STAGED_STATUS}
