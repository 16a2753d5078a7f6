"""Which messages are timed, and what is stored of them."""

import pytest

from pyromq.broker.kinds.timers.timed import (
    delivered_draft,
    recall_draft,
    rolled_draft,
    timer_diversions,
)
from pyromq.codes import SysFlag
from pyromq.config.settings import StoreSettings
from pyromq.errors import MessageIllegal, ServerFailed
from pyromq.store.follower import entry_of
from pyromq.store.store import Draft
from pyromq.wire import properties as names
from pyromq.wire.record import PROPERTIES_BYTES_MAX, Record

NOW_MS = 1_700_000_000_000
WHEEL_TIMER = "rmq_sys_wheel_timer"
#: What a waiting message says of itself.
WAITING = {"TIMER_OUT_MS": "99", "REAL_TOPIC": "orders", "REAL_QID": "3", "UNIQ_KEY": "ID"}


def draft(*, sys_flag: int = 0, topic: str = "orders") -> Draft:
    return Draft(topic, 2, b"x", "", 0, sys_flag, 0, bytes(8), bytes(8))


def divert(properties: dict[str, str], to: Draft | None = None, **settings: object) -> bool:
    """Divert as the intake does: by the first property that asks."""
    diversions = timer_diversions(StoreSettings(**settings), lambda: NOW_MS)  # type: ignore[arg-type]
    timed = to or draft()
    results = [apply(timed, properties) for name, apply in diversions.items() if name in properties]
    return True in results


def record(properties: dict[str, str] | None = None, **more: object) -> Record:
    text = names.encode(WAITING if properties is None else properties)
    fields: dict[str, object] = {"topic": WHEEL_TIMER, "body": b"x", "properties": text, "position": 4000}
    return Record(**fields | more)  # type: ignore[arg-type]


@pytest.mark.row("DE-10", "MM-09")
@pytest.mark.parametrize(
    ("asked", "due_ms"),
    [
        ({"TIMER_DELAY_SEC": "7"}, NOW_MS + 7_000),
        ({"TIMER_DELAY_MS": "7"}, NOW_MS + 7),
        ({"TIMER_DELAY_MS": "+7"}, NOW_MS + 7),
        ({"TIMER_DELIVER_MS": str(NOW_MS + 123)}, NOW_MS + 123),
        ({"TIMER_DELIVER_MS": "1", "TIMER_DELAY_MS": "8", "TIMER_DELAY_SEC": "2"}, NOW_MS + 2_000),
    ],
)
def test_a_timed_draft_goes_to_the_timer_queue(asked: dict[str, str], due_ms: int) -> None:
    timed, properties = draft(), dict(asked)

    assert divert(properties, timed)

    assert (timed.topic, timed.queue_id) == (WHEEL_TIMER, 0)
    assert properties == asked | {
        "TIMER_OUT_MS": str(due_ms),
        "REAL_TOPIC": "orders",
        "REAL_QID": "2",
    }


@pytest.mark.row("DE-11")
@pytest.mark.parametrize(("sys_flag", "is_diverted"), [(0, True), (4, False), (8, True), (12, False)])
def test_only_plain_and_committed_messages_wait(sys_flag: int, *, is_diverted: bool) -> None:
    assert divert({"TIMER_DELAY_MS": "5"}, draft(sys_flag=sys_flag)) is is_diverted


@pytest.mark.row("DE-10")
@pytest.mark.parametrize("more", [{"TIMER_OUT_MS": "1"}, {"TIMER_DELAY_MS": "0"}, {"TIMER_DELAY_MS": "-9"}])
def test_what_has_waited_or_has_no_time_to_wait_stays(more: dict[str, str]) -> None:
    timed = draft()

    assert not divert({"TIMER_DELAY_MS": "5"} | more, timed)

    assert timed.topic == "orders"


@pytest.mark.row("DE-10")
@pytest.mark.parametrize("text", ["", " ", "1.5", "soon", "٣", "1e3", "--5", "9" * 20, str(31 * 1000)])
def test_what_is_no_time_or_too_far_is_refused(text: str) -> None:
    with pytest.raises(MessageIllegal, match="30000ms"):
        divert({"TIMER_DELAY_MS": text}, timer_max_delay_sec=30)


@pytest.mark.row("DE-10")
def test_the_furthest_time_is_taken() -> None:
    assert divert({"TIMER_DELAY_SEC": "30"}, timer_max_delay_sec=30)


@pytest.mark.row("DE-10")
def test_switched_off_they_are_refused() -> None:
    with pytest.raises(ServerFailed, match="timerWheelEnable"):
        divert({"TIMER_DELAY_SEC": "30"}, timer_wheel_enable=False)


@pytest.mark.row("DE-10")
def test_the_delivered_message_is_the_waiting_one_and_names_it() -> None:
    delivered = delivered_draft(record(reconsume_times=2, flag=7, stored_at_ms=50), 100)

    assert delivered is not None
    assert (delivered.topic, delivered.queue_id, delivered.body) == ("orders", 3, b"x")
    assert (delivered.flag, delivered.reconsume_times, delivered.prepared_position) == (7, 2, 4001)
    assert names.decode(delivered.properties) == WAITING | {
        "TIMER_ENQUEUE_MS": "50",
        "TIMER_DEQUEUE_MS": "100",
    }


@pytest.mark.row("DE-10")
def test_the_record_at_the_beginning_of_the_log_can_be_named() -> None:
    delivered = delivered_draft(record(position=0), 100)

    assert delivered is not None
    assert delivered.prepared_position != draft().prepared_position


@pytest.mark.row("DE-10")
def test_properties_without_room_stay_as_they_are() -> None:
    long = WAITING | {"a": "x" * (PROPERTIES_BYTES_MAX - 80)}
    text = names.encode(long)

    delivered, rolled = delivered_draft(record(long), 100), rolled_draft(record(long))

    assert delivered is not None
    assert delivered.properties == text
    assert len(rolled.properties) <= PROPERTIES_BYTES_MAX


@pytest.mark.parametrize("lost", ["REAL_TOPIC", "REAL_QID"])
def test_a_message_that_does_not_say_where_it_belongs_is_not_delivered(lost: str) -> None:
    properties = {name: value for name, value in WAITING.items() if name != lost}

    assert delivered_draft(record(properties), 100) is None


def test_a_record_of_another_topic_is_not_delivered() -> None:
    assert delivered_draft(record(topic="orders"), 100) is None


@pytest.mark.row("DE-10")
def test_a_message_that_is_stored_again_waits_on_and_counts_how_often() -> None:
    waiting = record()
    for times in ("1", "2", "3"):
        rolled = rolled_draft(waiting)
        assert names.decode(rolled.properties) == WAITING | {"TIMER_ROLL_TIMES": times}
        assert (rolled.topic, rolled.prepared_position) == (WHEEL_TIMER, 4001)
        waiting.properties = rolled.properties
    assert waiting.properties.count("TIMER_ROLL_TIMES") == 1


@pytest.mark.row("DE-10")
def test_a_recall_names_the_message_and_does_not_wait_itself() -> None:
    v6 = SysFlag.BORN_HOST_V6
    recall = recall_draft(record(sys_flag=int(v6 | SysFlag.COMPRESSED), born_host=bytes(20)), 100)

    assert (recall.topic, recall.prepared_position, recall.sys_flag) == (WHEEL_TIMER, 4001, v6)
    assert names.decode(recall.properties) == {"TIMER_DEL_UNIQKEY": "orders+ID"}
    stored = Record(topic=recall.topic, body=recall.body, properties=recall.properties)
    assert entry_of(stored, 100, {}).tags_code == 0


@pytest.mark.row("DE-10")
@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ({"TIMER_OUT_MS": "123", "TAGS": "paid"}, 123),
        ({"TAGS": "paid"}, 0),
        ({"TIMER_OUT_MS": "-5"}, 0),
        ({"TIMER_OUT_MS": "9" * 19}, 0),
        ({"TIMER_OUT_MS": "123", "TIMER_DEL_UNIQKEY": "orders+ID"}, 0),
    ],
)
def test_an_entry_of_the_timer_queue_says_when_its_message_is_due(
    properties: dict[str, str], code: int
) -> None:
    assert entry_of(record(properties), 100, {}).tags_code == code
