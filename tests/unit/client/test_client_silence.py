"""Brokers that do not answer a look: they are noted, and waited for once."""

import pytest
from client_stage import Stage, answer, refuses, two_brokers

from pyromq.client.plans.admin.targets import BrokerPlace, Silence, ask_each
from pyromq.client.steps import Plan, request
from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import Refused, RequestTimeout
from pyromq.wire.command import Command

WELL, BAD = BrokerPlace("c", "well", 0, "well:1"), BrokerPlace("c", "bad", 0, "bad:1")
CODE = RequestCode.GET_BROKER_RUNTIME_INFO


def hang(_: Command) -> Command:
    raise RequestTimeout("bad:1 did not answer in time")


@pytest.fixture
def stage() -> Stage:
    stage = two_brokers()
    stage.brokers |= {WELL.address: lambda _: answer(), BAD.address: hang}
    return stage


def asked(stage: Stage, silence: Silence | None, *places: BrokerPlace) -> Plan[dict[BrokerPlace, Command]]:
    return ask_each(stage.session(), places or (BAD, WELL), lambda: request(CODE), silence)


def test_who_does_not_answer_is_noted_and_asked_once_in_a_look(stage: Stage) -> None:
    silence = Silence()

    for _ in range(3):
        assert list(stage.run(asked(stage, silence))) == [WELL]

    assert stage.asked(CODE).count(BAD.address) == 1
    assert silence.why == {BAD: "bad:1 did not answer in time"}


def test_who_refuses_one_thing_is_asked_the_next(stage: Stage) -> None:
    silence = Silence()
    stage.brokers[BAD.address] = refuses(ResponseCode.NO_PERMISSION)

    for _ in range(2):
        assert list(stage.run(asked(stage, silence))) == [WELL]

    assert stage.asked(CODE).count(BAD.address) == 2
    assert list(silence.why) == [BAD]


def test_the_failure_is_raised_when_nobody_answers(stage: Stage) -> None:
    with pytest.raises(RequestTimeout):
        stage.run(asked(stage, Silence(), BAD))


def test_the_first_failure_is_raised_where_nobody_asks_who_is_silent(stage: Stage) -> None:
    stage.brokers[BAD.address] = refuses(ResponseCode.NO_PERMISSION)

    with pytest.raises(Refused):
        stage.run(asked(stage, None))

    assert WELL.address not in stage.asked(CODE)
