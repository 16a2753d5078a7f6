"""The plans of messages that are encoded already: sent again until a broker has them."""

import pytest
from client_stage import NAME_SERVERS, Stage, answer, refuses, route_of

from pyromq.client.plans import encoded_plans
from pyromq.client.steps import Deadline
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import ClientSettings
from pyromq.errors import MessageIllegal, NetworkError, NoRoute
from pyromq.model import MessageQueue
from pyromq.wire.batch import BatchUnit, decode_batch, encode_batch
from pyromq.wire.bodies.route_bodies import encode_route
from pyromq.wire.command import Command
from pyromq.wire.headers.send_headers import SendMessageAnswer

QUEUE = MessageQueue("orders", "a", 1)
UNIT = BatchUnit(0, b"body", "UNIQ_KEY\x01ID1")
UNITS = encode_batch([UNIT, BatchUnit(0, b"more", "UNIQ_KEY\x01ID2")])


def name_server(_command: Command) -> Command:
    return answer(body=encode_route(route_of("a", queues=2), quoted_keys=True))


def stores(_command: Command) -> Command:
    return answer(header=SendMessageAnswer(msg_id="X", queue_id=1, queue_offset=5))


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.brokers = dict.fromkeys(NAME_SERVERS, name_server) | {"a:1": stores}
    return stage


def deadline(stage: Stage) -> Deadline:
    return Deadline(stage.clock, 5_000)


def sends(stage: Stage) -> list[Command]:
    codes = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
    return [call.command for call in stage.calls if call.command.code in codes]


def test_a_batch_travels_as_it_was_encoded(stage: Stage) -> None:
    result = stage.run(encoded_plans.send_units(stage.session(), QUEUE, UNITS, deadline(stage)))

    (command,) = sends(stage)
    assert command.code == RequestCode.SEND_BATCH_MESSAGE
    assert [unit.body for unit in decode_batch(command.body)] == [b"body", b"more"]
    assert result.queue_offset == 5


def test_a_message_by_itself_keeps_its_id(stage: Stage) -> None:
    result = stage.run(encoded_plans.send_unit(stage.session(), QUEUE, UNIT, deadline(stage)))

    (command,) = sends(stage)
    assert command.code == RequestCode.SEND_MESSAGE_V2
    assert command.body == b"body"
    assert result.message_id == "ID1"


def test_a_broker_that_restarts_is_sent_the_same_again(stage: Stage) -> None:
    stage.down.add("a:1")
    stage.on_pause = lambda _seconds: stage.down.clear()

    result = stage.run(encoded_plans.send_units(stage.session(), QUEUE, UNITS, deadline(stage)))

    assert result.queue_offset == 5


def test_a_topic_whose_broker_is_not_registered_for_a_moment_is_waited_for(stage: Stage) -> None:
    gone = refuses(ResponseCode.TOPIC_NOT_EXIST)
    stage.brokers |= dict.fromkeys(NAME_SERVERS, gone)
    stage.on_pause = lambda _seconds: stage.brokers.update(dict.fromkeys(NAME_SERVERS, name_server))

    result = stage.run(encoded_plans.send_units(stage.session(), QUEUE, UNITS, deadline(stage)))

    assert result.queue_offset == 5


def test_a_broker_that_stays_away_ends_it_when_the_time_is_up(stage: Stage) -> None:
    stage.down.add("a:1")

    with pytest.raises((NetworkError, NoRoute)):
        stage.run(encoded_plans.send_units(stage.session(), QUEUE, UNITS, deadline(stage)))


def test_what_a_broker_refuses_is_not_sent_again(stage: Stage) -> None:
    stage.brokers["a:1"] = refuses(ResponseCode.MESSAGE_ILLEGAL, "too large")

    with pytest.raises(MessageIllegal, match="too large"):
        stage.run(encoded_plans.send_units(stage.session(), QUEUE, UNITS, deadline(stage)))
    assert len(sends(stage)) == 1


def test_a_namespace_is_on_the_wire_alone(stage: Stage) -> None:
    session = stage.session(ClientSettings(namespace="shop"))

    result = stage.run(encoded_plans.send_units(session, QUEUE, UNITS, deadline(stage)))

    (command,) = sends(stage)
    assert command.ext["b"] == "shop%orders"
    assert result.queue.topic == "orders"
