"""How far a group that pops is: what is in flight counts, what is acknowledged out of order does not."""

from pyromq.model import MessageQueue
from pyromq.wire.bodies.offset_bodies import GroupProgress, decode_consume_stats
from pyromq.wire.bodies.operation_bodies import GroupLag, decode_lags, encode_lag, encode_lags

QUEUE = MessageQueue("orders", "broker-a", 0)
#: 100 messages, 70 of them popped, 5 of those not acknowledged yet: the first of them is at 40.
POPPED = GroupProgress(broker_offset=100, consumer_offset=40, last_timestamp=7, pull_offset=70, in_flight=5)


def test_what_is_behind_is_what_waits_and_what_is_in_flight() -> None:
    assert POPPED.behind == 100 - 70 + 5
    assert POPPED.reached == 65


def test_a_group_that_does_not_pop_is_behind_what_it_committed() -> None:
    classic = GroupProgress(broker_offset=100, consumer_offset=40)

    assert (classic.behind, classic.reached) == (60, 40)


def test_the_answers_of_apaches_5_count_from_the_committed_offset() -> None:
    # 5.x says what was pulled, and not how much of it is acknowledged.
    of_5 = GroupProgress(broker_offset=100, consumer_offset=40, pull_offset=70)

    assert of_5.behind == 60


def test_only_a_group_that_pops_has_the_two_fields() -> None:
    popped = encode_lag(GroupLag(offset_table={QUEUE: POPPED}))
    classic = encode_lag(GroupLag(offset_table={QUEUE: GroupProgress(broker_offset=1, consumer_offset=1)}))

    assert b'"inFlight":5' in popped
    assert b'"pullOffset":70' in popped
    assert decode_consume_stats(popped) == {QUEUE: POPPED}
    assert classic == (
        b'{"consumeTps":0.0,"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:'
        b'{"brokerOffset":1,"consumerOffset":1,"lastTimestamp":0}}}'
    )


def test_the_lags_of_all_groups_add_up_the_same() -> None:
    body = encode_lags("127.0.0.1:10911", {"billing": [GroupLag(offset_table={QUEUE: POPPED})]})

    assert b'"totalDiff":35' in body
    (lag,) = decode_lags(body)["billing"]
    assert lag.behind == 35
