"""What receives say is kept by their bytes, within bounds."""

import pytest

from pyromq.broker.grpc.consuming import receive_words
from pyromq.broker.grpc.consuming.receive_words import ReceiveReading, need_to_receive
from pyromq.config.account_rules import Permission
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_codes import GrpcRefused
from pyromq.wire.grpc.grpc_times import duration_of


def asked(
    topic: str = "orders", group: str = "readers", *, attempt_id: str = "", expression: str = "*"
) -> bytes:
    return pb.ReceiveMessageRequest(
        group=pb.Resource(name=group),
        message_queue=pb.MessageQueue(topic=pb.Resource(name=topic), id=3),
        filter_expression=pb.FilterExpression(type=1, expression=expression),
        batch_size=16,
        invisible_duration=duration_of(15_000),
        long_polling_timeout=duration_of(0),
        attempt_id=attempt_id,
    ).SerializeToString()


def test_all_words_are_read() -> None:
    words = ReceiveReading().read(asked(expression="a||b"))
    assert (words.topic, words.group, words.batch_size) == ("orders", "readers", 16)
    assert (words.invisible_ms, words.polling_ms, words.is_renewed) == (15_000, 0, False)
    assert (words.filter_type, words.expression, words.attempt_id) == (1, "a||b", None)


def test_a_request_that_says_nothing_of_waiting_is_no_request_to_wait_for_nothing() -> None:
    words = ReceiveReading().read(pb.ReceiveMessageRequest(auto_renew=True).SerializeToString())
    assert words.polling_ms is None
    assert words.is_renewed


def test_the_same_bytes_are_read_once_and_others_are_others() -> None:
    reading = ReceiveReading()
    assert reading.read(asked()) is reading.read(asked())
    assert reading.read(asked(group="others")).group == "others"
    assert reading.read(asked()).group == "readers"


def test_attempts_and_long_requests_are_not_kept() -> None:
    reading = ReceiveReading()
    for data in (asked(attempt_id="one"), asked(expression="a||" * 200)):
        assert reading.read(data) is not reading.read(data)
    assert reading.read(asked(attempt_id="two")).attempt_id == "two"


def test_a_client_that_asks_for_ever_new_groups_fills_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive_words, "_KEPT_MAX", 8)
    reading = ReceiveReading()
    for number in range(100):
        reading.read(asked(group=f"readers-{number}"))
        assert len(reading._kept) <= 8


@pytest.mark.parametrize(("topic", "group"), [("", "readers"), ("bad topic", "readers"), ("orders", "")])
def test_names_that_may_not_be_are_refused_each_time(topic: str, group: str) -> None:
    reading = ReceiveReading()
    for _ in range(2):
        with pytest.raises(GrpcRefused):
            reading.read(asked(topic, group)).check_names()


def test_an_account_needs_what_the_request_names() -> None:
    need = need_to_receive(ReceiveReading().read(asked()))
    assert need.resources["orders"] is Permission.SUB
    assert len(need.resources) == 2
