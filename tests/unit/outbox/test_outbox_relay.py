"""A relay sends what is in the outbox, each message until it is sent."""

import sqlite3
import threading
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from outbox_stage import SendsToMemory, Shop

from pyromq import ConfigError, MessageIllegal, RequestTimeout
from pyromq.outbox import Relay, RelaySettings, WaitingMessage
from pyromq.testing.waiting import eventually

AWAY = RequestTimeout("no answer within 3 s")


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.fixture
def producer() -> SendsToMemory:
    return SendsToMemory()


@pytest.mark.row("ID-01")
def test_what_was_committed_is_sent_in_the_order_of_adding(shop: Shop, producer: SendsToMemory) -> None:
    ids = [shop.order(number) for number in range(3)]

    report = shop.relay(producer).run_once()

    assert report.sent == 3
    assert producer.bodies == [b"order 0", b"order 1", b"order 2"]
    assert producer.ids == ids


def test_what_was_sent_is_removed(shop: Shop, producer: SendsToMemory) -> None:
    shop.order(1)

    shop.relay(producer).run_once()

    assert shop.rows("id") == []


def test_what_was_sent_is_kept_when_told_to_and_not_sent_again(shop: Shop, producer: SendsToMemory) -> None:
    shop.order(1)
    relay = shop.relay(producer, keep_sent=True)

    assert [relay.run_once().sent for _ in range(2)] == [1, 0]

    assert shop.rows("sent_ms, attempts") == [(shop.clock.now_ms(), 1)]
    assert relay.stuck(timedelta(0)) == []


def test_what_was_kept_is_forgotten_after_a_time(shop: Shop, producer: SendsToMemory) -> None:
    relay = shop.relay(producer, keep_sent=True)
    shop.order(1)
    relay.run_once()
    shop.clock.advance(3_600_000)
    shop.order(2)
    relay.run_once()

    assert relay.forget_sent(timedelta(minutes=59)) == 1
    assert shop.rows("body") == [(b"order 2",)]


def test_at_most_a_batch_is_taken_at_once(shop: Shop, producer: SendsToMemory) -> None:
    for number in range(5):
        shop.order(number)
    relay = shop.relay(producer, batch_rows=2)

    assert [relay.run_once().sent for _ in range(4)] == [2, 2, 1, 0]


@pytest.mark.row("ID-01")
def test_a_message_that_could_not_be_sent_is_sent_later_under_the_same_id(
    shop: Shop, producer: SendsToMemory
) -> None:
    message_id = shop.order(1)
    relay = shop.relay(producer)
    producer.failing = {"orders": AWAY}
    relay.run_once()

    producer.failing = {}
    assert relay.run_once().taken == 0
    shop.clock.advance(1_000)
    relay.run_once()

    assert producer.ids == [message_id]


@pytest.mark.row("ID-01")
def test_attempts_and_the_last_error_are_written_down(shop: Shop, producer: SendsToMemory) -> None:
    shop.order(1)
    producer.failing = {"orders": AWAY}

    shop.relay(producer).run_once()

    assert shop.rows("attempts, last_error") == [(1, "RequestTimeout: no answer within 3 s")]


def test_a_message_waits_longer_after_each_failure_up_to_a_limit(shop: Shop, producer: SendsToMemory) -> None:
    shop.order(1)
    producer.failing = {"orders": AWAY}
    relay = shop.relay(producer, back_off_ms=1_000, back_off_ms_max=8_000)
    waits = []
    for _ in range(6):
        relay.run_once()
        ((due_ms,),) = shop.rows("due_ms")
        waits.append(due_ms - shop.clock.now_ms())
        shop.clock.advance(waits[-1])

    longest = [1_000, 2_000, 4_000, 8_000, 8_000, 8_000]
    assert all(most / 2 <= wait <= most for wait, most in zip(waits, longest, strict=True)), waits


@pytest.mark.parametrize(("chance", "ms"), [(0.0, 4_000), (1.0, 2_000)])
def test_chance_takes_off_up_to_a_half(chance: float, ms: int) -> None:
    assert RelaySettings().pause_ms(3, chance) == ms


def test_a_topic_that_is_away_costs_one_time_out_a_round_and_no_attempt_of_the_others(
    shop: Shop, producer: SendsToMemory
) -> None:
    for number in range(3):
        shop.order(number)
    producer.failing = {"orders": AWAY}

    report = shop.relay(producer).run_once()

    assert producer.tries == 1
    assert (report.failed, report.put_back) == (1, 2)
    assert [attempts for (attempts,) in shop.rows("attempts")] == [1, 0, 0]


def test_a_topic_that_is_away_does_not_keep_other_topics_waiting(shop: Shop, producer: SendsToMemory) -> None:
    shop.order(1)
    shop.order(2, topic="bills")
    producer.failing = {"orders": AWAY}

    shop.relay(producer).run_once()

    assert producer.bodies == [b"order 2"]


def test_a_message_that_is_refused_does_not_keep_others_of_its_topic_waiting(
    shop: Shop, producer: SendsToMemory
) -> None:
    shop.order(1)
    shop.order(2)

    def refuse_the_first(message: object) -> None:
        if producer.tries == 1:
            raise MessageIllegal(13, "the body is too long")

    producer.before_send = refuse_the_first
    shop.relay(producer).run_once()

    assert producer.bodies == [b"order 2"]


def test_a_row_that_does_not_read_is_reported_and_does_not_stop_the_rest(
    shop: Shop, producer: SendsToMemory
) -> None:
    shop.order(1)
    shop.order(2)
    with closing(shop.connect()) as connection, connection:
        connection.execute("""UPDATE pyromq_outbox SET attributes = '{"colour": "red"}' WHERE id = 1""")
    relay = shop.relay(producer)

    relay.run_once()

    assert producer.bodies == [b"order 2"]
    (waiting,) = relay.stuck(timedelta(0))
    assert "another version" in str(waiting.last_error)


@pytest.mark.row("ID-01")
def test_the_alarm_is_raised_once_after_the_nth_failure(shop: Shop, producer: SendsToMemory) -> None:
    message_id = shop.order(1)
    producer.failing = {"orders": AWAY}
    alarms: list[WaitingMessage] = []
    settings = RelaySettings(alarm_after=3)
    relay = Relay(shop.connect, producer, settings, alarm=alarms.append, clock=shop.clock)

    for _ in range(5):
        relay.run_once()
        shop.clock.advance(300_000)

    assert [(alarm.message_id, alarm.attempts) for alarm in alarms] == [(message_id, 3)]
    assert "no answer" in str(alarms[0].last_error)


def test_the_alarm_goes_to_the_log_by_default(
    shop: Shop, producer: SendsToMemory, caplog: pytest.LogCaptureFixture
) -> None:
    message_id = shop.order(1)
    producer.failing = {"orders": AWAY}

    shop.relay(producer, alarm_after=1).run_once()

    assert message_id in caplog.text


@pytest.mark.row("ID-01")
def test_what_waits_for_long_is_reported_with_its_error(shop: Shop, producer: SendsToMemory) -> None:
    old = shop.order(1)
    relay = shop.relay(producer)
    producer.failing = {"orders": AWAY}
    relay.run_once()
    shop.clock.advance(120_000)
    shop.order(2)

    (stuck,) = relay.stuck(timedelta(minutes=1))

    assert (stuck.message_id, stuck.attempts) == (old, 1)
    assert stuck.last_error == "RequestTimeout: no answer within 3 s"


@pytest.mark.row("ID-01")
def test_messages_of_a_group_are_sent_in_order_to_one_queue(shop: Shop, producer: SendsToMemory) -> None:
    for number in range(4):
        shop.order(number, group="customer-7")
    relay = shop.relay(producer)

    while relay.run_once().sent:
        pass

    assert producer.bodies == [b"order 0", b"order 1", b"order 2", b"order 3"]
    assert len(set(producer.queues)) == 1
    assert producer.queues[0] is not None


def test_a_message_that_fails_holds_up_its_group_and_nothing_else(
    shop: Shop, producer: SendsToMemory
) -> None:
    shop.order(0, topic="bills", group="customer-7")
    shop.order(1, group="customer-7")
    shop.order(2, group="customer-8")
    shop.order(3)
    relay = shop.relay(producer)
    producer.failing = {"bills": AWAY}

    relay.run_once()
    assert producer.bodies == [b"order 2", b"order 3"]

    producer.failing = {}
    shop.clock.advance(1_000)
    while relay.run_once().sent:
        pass
    assert producer.bodies[2:] == [b"order 0", b"order 1"]


@pytest.mark.row("ID-01")
def test_a_row_that_one_relay_sends_is_not_taken_by_another(shop: Shop, producer: SendsToMemory) -> None:
    shop.order(1)
    other = SendsToMemory()
    producer.before_send = lambda _message: shop.relay(other).run_once() and None

    shop.relay(producer).run_once()

    assert (len(producer.messages), len(other.messages)) == (1, 0)


def test_a_group_that_one_relay_works_at_is_not_overtaken_by_another(
    shop: Shop, producer: SendsToMemory
) -> None:
    shop.order(1, group="customer-7")
    shop.order(2, group="customer-7")
    other = SendsToMemory()
    producer.before_send = lambda _message: shop.relay(other).run_once() and None

    shop.relay(producer).run_once()

    assert other.messages == []


def test_rows_of_a_relay_that_died_are_sent_when_its_lease_is_over(
    shop: Shop, producer: SendsToMemory
) -> None:
    class Died(BaseException):
        pass

    def die(_message: object) -> None:
        raise Died

    message_id = shop.order(1)
    dying = SendsToMemory()
    dying.before_send = die
    with pytest.raises(Died):
        shop.relay(dying, lease_ms=60_000).run_once()

    shop.clock.advance(59_999)
    assert shop.relay(producer).run_once().taken == 0
    shop.clock.advance(1)
    shop.relay(producer).run_once()

    assert producer.ids == [message_id]


def test_a_slow_relay_gives_rows_back_before_its_lease_ends(shop: Shop, producer: SendsToMemory) -> None:
    for number in range(3):
        shop.order(number)
    producer.before_send = lambda _message: shop.clock.advance(29_000)

    report = shop.relay(producer, lease_ms=60_000, send_timeout_ms=30_000).run_once()

    assert (report.sent, report.put_back) == (2, 1)


def test_a_lease_shorter_than_a_send_is_refused() -> None:
    with pytest.raises(ConfigError, match="lease_ms"):
        RelaySettings(lease_ms=3_000, send_timeout_ms=3_000)


def test_a_connection_that_commits_by_itself_is_refused(shop: Shop, producer: SendsToMemory) -> None:
    relay = Relay(lambda: sqlite3.connect(shop.path, isolation_level=None), producer)

    with pytest.raises(ConfigError, match="autocommit"):
        relay.run_once()


@pytest.fixture
def running(shop: Shop, producer: SendsToMemory) -> Relay:
    return shop.relay(producer, poll_ms=60_000)


def started(relay: Relay) -> threading.Thread:
    thread = threading.Thread(target=relay.run)
    thread.start()
    return thread


def test_a_running_relay_sends_what_comes_when_it_is_woken(
    shop: Shop, producer: SendsToMemory, running: Relay
) -> None:
    thread = started(running)
    shop.order(1)
    running.wake()

    eventually(lambda: len(producer.messages) == 1)
    running.stop()
    thread.join(10)
    assert not thread.is_alive()


def test_stopping_gives_back_what_was_taken_and_not_sent(
    shop: Shop, producer: SendsToMemory, running: Relay
) -> None:
    for number in range(3):
        shop.order(number)
    producer.before_send = lambda _message: running.stop()

    running.run()

    assert producer.bodies == [b"order 0"]
    assert shop.rows("body, lease_token, attempts") == [(b"order 1", None, 0), (b"order 2", None, 0)]


def test_a_database_that_is_away_for_a_while_does_not_end_the_relay(
    shop: Shop, producer: SendsToMemory, caplog: pytest.LogCaptureFixture
) -> None:
    shop.order(1)
    connections = iter([sqlite3.OperationalError("the disk is away"), None])

    def connect() -> sqlite3.Connection:
        error = next(connections)
        if error is not None:
            raise error
        return shop.connect()

    relay = Relay(connect, producer, RelaySettings(back_off_ms=1), clock=shop.clock)
    producer.before_send = lambda _message: relay.stop()
    relay.run()

    assert producer.bodies == [b"order 1"]
    assert "the disk is away" in caplog.text
