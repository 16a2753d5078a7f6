"""A broker's route has all its facts, or there is no such route."""

from dataclasses import fields, replace
from typing import Any

import pytest
from route_listing import broker_routes, namesrv_routes

from pyromq.broker.access.needs import Anybody, administrator, publishes
from pyromq.broker.requests.route_facts import BrokerRoute, BrokerTable, OnSlave
from pyromq.codes import RequestCode
from pyromq.net.routes import Answer, BodyLimit, Request, Route
from pyromq.wire.headers.send_headers import SendMessage, SendMessageV2

FACTS: dict[str, Any] = {
    "body": BodyLimit.FIELDS_ONLY,
    "needs": administrator,
    "writes": False,
    "on_slave": OnSlave.ANSWERS,
}


def answer(_request: Request[Any]) -> Answer:
    return Answer()


@pytest.mark.parametrize("fact", FACTS)
def test_a_route_without_one_of_its_facts_is_none(fact: str) -> None:
    facts = {name: value for name, value in FACTS.items() if name != fact}

    with pytest.raises(TypeError, match=fact):
        BrokerRoute(RequestCode.GET_BROKER_CONFIG, answer, **facts)


def test_a_brokers_table_takes_no_route_without_facts() -> None:
    with pytest.raises(TypeError, match="26 is no BrokerRoute"):
        BrokerTable([Route(RequestCode.GET_BROKER_CONFIG, answer)])


def test_what_writes_is_not_a_slaves() -> None:
    with pytest.raises(ValueError, match="a slave cannot answer it"):
        BrokerRoute(RequestCode.SEND_MESSAGE, answer, **{**FACTS, "writes": True})


def test_a_permission_is_looked_for_in_a_field_that_the_request_has() -> None:
    facts = {**FACTS, "needs": publishes("topic")}

    BrokerRoute(RequestCode.SEND_MESSAGE, answer, SendMessage, **facts)
    with pytest.raises(ValueError, match="topic"):
        BrokerRoute(RequestCode.SEND_MESSAGE_V2, answer, SendMessageV2, **facts)


def test_no_fact_has_a_default() -> None:
    required = {field.name for field in fields(BrokerRoute) if field.kw_only}

    assert required == FACTS.keys()


def test_whatever_any_account_may_do_says_why() -> None:
    open_to_all = [route for route in broker_routes() if isinstance(route.needs, Anybody)]

    assert open_to_all
    assert [route.code for route in open_to_all if len(route.needs.why) < 20] == []


def test_messages_are_stored_by_these_requests_and_no_others() -> None:
    assert {route.code for route in broker_routes() if route.writes} == {
        *(10, 310, 320, 324, 325, 36, 37, 370, 323, 9101, 9102, 9103, 9104)
    }


def test_every_code_has_one_route() -> None:
    for routes in (broker_routes(), namesrv_routes()):
        codes = [route.code for route in routes]
        assert len(codes) == len(set(codes))
    assert len(broker_routes()) > 70
    assert len(namesrv_routes()) == 20


def test_a_table_keeps_the_facts_when_a_guard_is_put_before_it() -> None:
    [listed] = (route for route in broker_routes() if route.code == RequestCode.SEND_MESSAGE)
    table = BrokerTable([listed])
    table.guard(lambda _request: None)

    [route] = table
    assert replace(route, guards=()) == listed
    assert table.find(route.code) is route
    assert table.find(9999) is None
