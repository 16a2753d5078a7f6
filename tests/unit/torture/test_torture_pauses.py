"""How long clients waited: time in which nobody wanted anything is no pause."""

from pyromq.torture.history import HistoryEvent, Json
from pyromq.torture.pauses import Pauses


def _see(*events: tuple[float, str, str, dict[str, Json]]) -> Pauses:
    pauses = Pauses()
    for at_s, actor, kind, fields in events:
        pauses.see(HistoryEvent(at_s, actor, kind, fields))
    return pauses


def _send(at_s: float, number: int, actor: str = "sender") -> tuple[float, str, str, dict[str, Json]]:
    return at_s, actor, "send", {"number": number, "what": "plain", "topic": "t"}


def _ack(at_s: float, number: int, actor: str = "sender") -> tuple[float, str, str, dict[str, Json]]:
    return at_s, actor, "ack", {"number": number, "status": "SEND_OK"}


def _deliver(at_s: float, number: int, group: str = "g") -> tuple[float, str, str, dict[str, Json]]:
    return at_s, "reader", "deliver", {"number": number, "group": group}


SUBSCRIBED: tuple[float, str, str, dict[str, Json]] = (0.0, "g", "subscribe", {"group": "g", "topic": "t"})


def test_a_producer_waits_from_its_first_send_without_an_answer_to_the_next_acknowledgement() -> None:
    failed = (3.0, "sender", "fail", {"number": 2})
    pauses = _see(_send(1, 1), _ack(1.5, 1), _send(2, 2), failed, _send(4, 3), _ack(7, 3))

    assert pauses.producer.seconds == 5.0
    assert pauses.producer.until_s == 7.0
    assert pauses.producer.who == "sender"


def test_a_producer_that_sends_nothing_does_not_wait() -> None:
    assert _see(_send(1, 1), _ack(1.5, 1), _send(60, 2), _ack(61, 2)).producer.seconds == 1.0


def test_a_producer_that_never_gets_an_answer_waits_until_the_load_ends() -> None:
    assert _see(_send(1, 1), (9.0, "workload", "stopped", {})).producer.seconds == 8.0


def test_a_consumer_waits_from_a_message_that_is_there_to_the_next_delivery() -> None:
    pauses = _see(
        SUBSCRIBED, _send(1, 1), _ack(2, 1), _send(3, 2), _ack(4, 2), _deliver(7, 1), _deliver(8, 2)
    )

    assert pauses.consumer.seconds == 5.0
    assert pauses.consumer.who == "g"


def test_a_message_that_came_before_its_answer_is_not_waited_for() -> None:
    pauses = _see(
        SUBSCRIBED, _send(1, 1), _deliver(1.1, 1), _ack(2, 1), _send(90, 2), _ack(90.5, 2), _deliver(91, 2)
    )

    assert pauses.consumer.seconds == 0.5
