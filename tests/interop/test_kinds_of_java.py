"""Every kind of message by the real Java clients 4.9.8 and 5.x, on our servers and on Apache's 4.9.

`harness/kinds.py` tells the same story to both. Most tests here ask one thing of each telling, Apache's too,
so that what we expect is what RocketMQ does; the last ones lay the two side by side, record by record.
"""

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

import pytest
from harness import kinds
from harness.kinds import Tale
from harness.ledger import HALF, OP, Entry, offset_id, unique_id
from harness.missing import unavailable
from harness.program import Event
from harness.toolchains import Unavailable

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(300)]

SCHEDULE, GIVEN_UP = "SCHEDULE_TOPIC_XXXX", "TRANS_CHECK_MAX_TIME_TOPIC"
#: A delayed message that is later than this was forgotten for a while; a busy machine is quicker.
LATE_MS = 3_000
MESSAGE_ILLEGAL = 13
#: We write that a half was given up; RocketMQ gives it up once more after a crash.
OP_OF_GIVEN_UP = b"the half of b'unknown'"
#: Properties of a consumed message that its client adds, and that depend on when it was pulled.
OF_THE_PULL = frozenset({"MIN_OFFSET", "MAX_OFFSET", "CONSUME_START_TIME"})


@pytest.fixture(scope="module")
def tales(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Tale]:
    """The story, told by each client to each kind of servers."""
    try:
        return kinds.tell_all(tmp_path_factory.mktemp("kinds"))
    except Unavailable as error:
        unavailable(error)


@pytest.fixture(params=kinds.CLIENTS)
def version(request: pytest.FixtureRequest) -> str:
    """The version of the Java client."""
    return request.param


@pytest.fixture(params=kinds.SERVERS)
def tale(request: pytest.FixtureRequest, version: str, tales: dict[tuple[str, str], Tale]) -> Tale:
    """One telling."""
    return tales[request.param, version]


# Retries and dead letters


@pytest.mark.row("RT-01", "RT-03", "RT-04", "RT-06", "RT-13", "RT-14")
def test_a_message_that_fails_comes_again_until_the_group_s_limit(tale: Tale) -> None:
    assert tale.times("retry") == sorted(
        [
            *(("later/done", 0), ("later/done", 1), ("throw/done", 0), ("throw/done", 1)),
            *(("null/done", 0), ("null/done", 1), ("never", 0)),
            *((body, times) for body in ("later", "soon") for times in range(kinds.RETRY_LIMIT + 1)),
        ]
    )


@pytest.mark.row("RT-03", "RT-06", "DE-02")
def test_a_retry_waits_at_the_level_of_its_time_or_at_the_one_that_the_listener_names(tale: Tale) -> None:
    retry_topic = f"%RETRY%{tale.group('retry')}"
    assert _levels(tale, retry_topic, "later") == [3, 4]
    assert _levels(tale, retry_topic, "later/done") == [3]
    assert _levels(tale, retry_topic, "soon") == [1, 1]
    assert _levels(tale, retry_topic, "never") == []


@pytest.mark.row("RT-07", "RT-09")
def test_a_message_that_comes_again_is_the_same_message(tale: Tale) -> None:
    first, *again = [event for event in tale.consumed("retry") if event["body"] == "later"]
    (stored,) = [record for record in tale.ledger.of(tale.name("retry")) if record.body == b"later"]
    assert again
    for event in again:
        properties = event["properties"]
        assert event["topic"] == tale.name("retry")
        assert properties["RETRY_TOPIC"] == tale.name("retry")
        assert properties["UNIQ_KEY"] == first["properties"]["UNIQ_KEY"]
        assert properties["ORIGIN_MESSAGE_ID"] == offset_id(stored)
        kept = {name: properties[name] for name in ("TAGS", "KEYS", "note")}
        assert kept == {"TAGS": "red", "KEYS": "key-3", "note": "naïve-中文-3"}


@pytest.mark.row("RT-11", "RT-12")
def test_what_failed_too_often_and_what_is_given_up_are_the_group_s_dead_letters(tale: Tale) -> None:
    dead = tale.ledger.of(f"%DLQ%{tale.group('retry')}")
    assert sorted((record.body, record.queue_id, record.reconsume_times) for record in dead) == [
        (b"later", 0, kinds.RETRY_LIMIT + 1),
        (b"never", 0, 1),
        (b"soon", 0, kinds.RETRY_LIMIT + 1),
    ]
    assert tale.dead_queues == {"retry": 1, "stuck": 1}


@pytest.mark.row("RT-10")
def test_a_group_goes_on_behind_what_failed(tale: Tale) -> None:
    assert tale.committed["retry"] == {0: len(kinds.RETRIED)}
    assert tale.committed["stuck"] == {0: 3}


# Delays


@pytest.mark.row("DE-01", "DE-02", "DE-03", "DE-04", "DE-06", "DE-09")
def test_a_delayed_message_comes_when_it_is_due_and_soon_after(tale: Tale) -> None:
    assert tale.times("delay") == sorted((str(level), 0) for level in kinds.DELAYED)
    waiting = {record.body: record for record in tale.ledger.of(SCHEDULE)}
    for delivered in tale.ledger.of(tale.name("delay")):
        level = min(int(delivered.body), len(kinds.DELAYS_MS))  # a level above the highest is the highest
        record = waiting[delivered.body]
        assert record.queue_id == level - 1
        waited_ms = delivered.stored_at_ms - record.stored_at_ms
        assert 0 <= waited_ms - kinds.DELAYS_MS[level] < LATE_MS, level


@pytest.mark.row("DE-11")
def test_a_message_in_a_transaction_is_not_delayed(tale: Tale) -> None:
    is_taken = "commit/delayed" in tale.committing  # the 5.x client refuses it
    assert is_taken == (tale.prefix == "four")
    assert b"commit/delayed" not in {record.body for record in tale.ledger.of(SCHEDULE)}


# Transactions


@pytest.mark.row("TX-01", "TX-02", "TX-03", "TX-04")
def test_what_is_committed_is_consumed_and_nothing_else(tale: Tale) -> None:
    assert sorted(event["body"] for event in tale.consumed("transaction")) == sorted(tale.committing)


@pytest.mark.row("TX-03", "TX-04")
def test_only_those_whose_fate_is_unknown_are_asked_about(tale: Tale) -> None:
    asked = {event["body"] for event in tale.checked()}
    assert asked == {
        *("unknown", "unknown/commit", "unknown/rollback", "unknown/unknown/commit"),
        *("unknown/commit/orphan", "unknown/commit/immune"),
    }
    assert {event["topic"] for event in tale.checked()} == {tale.name("transaction")}


@pytest.mark.row("TX-05")
def test_a_member_answers_for_one_that_is_gone(tale: Tale) -> None:
    answered = [event["member"] for event in tale.checked() if event["body"] == "unknown/commit/orphan"]
    assert answered == ["dora"]


@pytest.mark.row("TX-05")
def test_the_members_of_a_group_are_asked_in_turn(tale: Tale) -> None:
    asked = {event["member"] for event in tale.checked() if "orphan" not in event["body"]}
    assert asked == {"anna", "bert"}


@pytest.mark.row("TX-06", "TX-07")
def test_a_transaction_that_nobody_decides_is_given_up_after_the_last_check(tale: Tale) -> None:
    checks = [event for event in tale.checked() if event["body"] == "unknown"]
    times = [event["properties"]["TRANSACTION_CHECK_TIMES"] for event in checks]
    assert times == [str(time) for time in range(1, kinds.CHECKS_MAX + 1)]
    assert [record.body for record in tale.ledger.of(GIVEN_UP)] == [b"unknown"]


@pytest.mark.row("TX-08")
def test_a_transaction_with_an_immunity_of_its_own_is_not_asked_about_before(tale: Tale) -> None:
    committed = {record.body: record for record in tale.ledger.of(tale.name("transaction"))}
    record = committed[b"unknown/commit/immune"]
    assert record.stored_at_ms - record.born_at_ms >= kinds.IMMUNITY_S * 1_000


@pytest.mark.row("TX-01", "TX-11")
def test_every_decided_half_has_its_op_message(tale: Tale) -> None:
    halves = {record.body for record in tale.ledger.of(HALF)}
    decided = {tale.ledger.entry(record).body for record in tale.ledger.of(OP)}
    expected = {f"the half of {body!r}".encode() for body in halves - {b"unknown"}}
    assert decided == (expected | {OP_OF_GIVEN_UP} if tale.server == "ours" else expected)


# Order


@pytest.mark.row("OR-02", "OR-03", "OR-04")
def test_messages_of_one_key_are_consumed_in_order_while_members_come_and_go(tale: Tale) -> None:
    assert tale.consumed_in_order() == tale.sent_in_order


@pytest.mark.row("OR-04")
def test_a_message_that_fails_in_order_is_tried_again_before_the_next(tale: Tale) -> None:
    by_queue: dict[int, list[Event]] = defaultdict(list)
    for event in tale.alone:
        by_queue[event["queue"]].append(event)
    failures = [
        (one, two)
        for events in by_queue.values()
        for one, two in pairwise(events)
        if one["times"] < one["body"].count("later")
    ]
    assert len(failures) == 2 * len(kinds.KEYS)
    for one, two in failures:
        assert (two["offset"], two["times"]) == (one["offset"], one["times"] + 1)


@pytest.mark.row("OR-03", "RB-01", "RB-02")
def test_in_order_a_second_member_gets_its_share_and_gives_it_back(tale: Tale) -> None:
    shared = [owners for owners in tale.owners if {"order", "order-two"} <= set().union(*owners.values())]
    assert any(kinds.is_shared(owners) for owners in shared)
    assert set().union(*tale.owners[-1].values()) == {"order"}


@pytest.mark.row("OR-04", "RT-11")
def test_in_order_a_limit_makes_a_dead_letter_and_the_rest_goes_on(tale: Tale) -> None:
    consumed = [(event["body"], event["times"]) for event in tale.consumed("stuck")]
    assert consumed == [("first", 0), ("later", 0), ("later", 1), ("last", 0)]
    (dead,) = tale.ledger.of(f"%DLQ%{tale.group('stuck')}")
    assert dead.body == b"later"


# Tags


@pytest.mark.row("FI-01")
def test_a_consumer_gets_the_tags_that_it_named_and_its_retries(tale: Tale) -> None:
    assert tale.times("tags") == [("last", 0), ("one", 0), ("soon/done", 0), ("soon/done", 1), ("three", 0)]
    assert tale.committed["tags"] == {0: 7}


@pytest.mark.row("FI-01")
def test_another_tag_with_the_same_hash_is_not_consumed(tale: Tale) -> None:
    assert tale.times("collision") == [("last", 0), ("one", 0)]


@pytest.mark.row("FI-02", "FI-03")
def test_a_consumer_gets_what_its_expression_matches(tale: Tale) -> None:
    assert tale.times("sql") == [("15", 0), ("25", 0)]


# Requests


@pytest.mark.row("SM-18", "SM-19")
def test_a_request_is_replied_to(tale: Tale) -> None:
    assert [event["body"] for event in tale.answers["request"] if event["event"] == "reply"] == ["reply!"]


# Batches


@pytest.mark.row("BA-01", "BA-07")
def test_a_batch_is_acknowledged_with_an_id_for_each_message(tale: Tale) -> None:
    (sent,) = tale.answers["batch"]
    stored = tale.ledger.of(tale.name("batch"))
    assert sent["status"] == "SEND_OK"
    assert sent["id"].split(",") == [unique_id(record) for record in stored]
    assert sent["offset_id"].split(",") == [offset_id(record) for record in stored]
    assert len(stored) == kinds.BATCH


@pytest.mark.row("BA-08")
def test_a_listener_gets_as_many_at_once_as_it_wants(tale: Tale) -> None:
    assert [event["together"] for event in tale.consumed("batch")] == [kinds.BATCH] * kinds.BATCH


@pytest.mark.row("BA-10")
def test_when_one_of_several_fails_all_come_again(tale: Tale) -> None:
    bodies = ("one", "soon/done", "three")
    assert tale.times("together") == [(body, times) for body in bodies for times in (0, 1)]


@pytest.mark.row("BA-04", "BA-05", "BA-06")
def test_a_batch_over_the_limit_is_refused_whole_and_taken_in_parts(tale: Tale) -> None:
    assert [event["code"] for event in tale.answers["large"]] == [MESSAGE_ILLEGAL]
    assert [event["status"] for event in tale.answers["split"]] == ["SEND_OK"] * 2
    stored = tale.ledger.of(tale.name("large"))
    assert [record.body.partition(b"/")[0] for record in stored] == [b"%d" % n for n in range(kinds.LARGE)]


# Ours beside Apache's


def _stored(tale: Tale, kind: str) -> list[Entry]:
    """Return the entries of a kind, without where we are better on purpose."""
    entries = tale.ledger.entries(kind)
    if kind == "stuck":
        # A dead letter that a 4.9 client sends itself is delayed there as a retry would be; not so in 5.x.
        entries = [_undelayed(entry) for entry in entries if entry.topic != SCHEDULE]
    elif kind == "transaction":
        # The time of its own immunity is no question for us, and so is not counted.
        entries = [entry for entry in entries if entry.body != OP_OF_GIVEN_UP and not _is_uncounted(entry)]
    return sorted(entries)


def _undelayed(entry: Entry) -> Entry:
    words = entry.properties.split("\x02")
    ours = sorted(word for word in words if not word.startswith(("DELAY\x01", "REAL_")))
    return entry._replace(properties="\x02".join(ours))


def _is_uncounted(entry: Entry) -> bool:
    properties = entry.properties
    return "TRAN_PREPARED_QUEUE_OFFSET" in properties and "TRANSACTION_CHECK_TIMES" not in properties


@pytest.mark.parametrize("kind", kinds.TOPICS)
def test_our_broker_stores_what_apache_s_stores(
    kind: str, version: str, tales: dict[tuple[str, str], Tale]
) -> None:
    ours, theirs = (_stored(tales[server, version], kind) for server in kinds.SERVERS)
    assert theirs
    assert ours == theirs


@pytest.mark.parametrize("member", [kind for kind in kinds.TOPICS if kind != "large"])
def test_a_consumer_of_our_broker_is_given_what_one_of_apache_s_is_given(
    member: str, version: str, tales: dict[tuple[str, str], Tale]
) -> None:
    ours, theirs = (
        _given(tale, tale.consumed(member)) for tale in (tales[s, version] for s in kinds.SERVERS)
    )
    assert theirs
    assert ours == theirs


def test_our_broker_asks_what_apache_s_asks(version: str, tales: dict[tuple[str, str], Tale]) -> None:
    ours, theirs = (
        _given(tale, tale.checked()) for tale in (tales[server, version] for server in kinds.SERVERS)
    )
    assert sorted(set(ours)) == sorted(set(theirs))


def test_groups_stand_where_they_would_on_apache_s_broker(
    version: str, tales: dict[tuple[str, str], Tale]
) -> None:
    ours, theirs = (tales[server, version].committed for server in kinds.SERVERS)
    assert ours == theirs


def _levels(tale: Tale, retry_topic: str, body: str) -> list[int]:
    """Return the levels at which the retries of a message waited, in their order."""
    return [
        record.queue_id + 1
        for record in tale.ledger.of(SCHEDULE)
        if record.body == body.encode() and f"REAL_TOPIC\x01{retry_topic}\x02" in record.properties + "\x02"
    ]


def _given(tale: Tale, events: Iterable[Event]) -> list[tuple[object, ...]]:
    """Return what a program was given, without what differs from run to run."""
    return sorted(
        (
            event["topic"],
            event["body"],
            event.get("times", 0),
            tale.ledger.name_ids(
                "\x02".join(
                    f"{name}\x01{value}"
                    for name, value in sorted(event["properties"].items())
                    if name not in OF_THE_PULL
                )
            ),
        )
        for event in events
    )
