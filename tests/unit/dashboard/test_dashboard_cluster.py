"""Brokers that go and come back, accounts, and the doctor's findings, without a cluster."""

from typing import Any

from pyromq.client.observation.snapshot import BrokerSnapshot, ClusterSnapshot, Moment, Question
from pyromq.dashboard.account_pages import merged
from pyromq.dashboard.health import SHOWN_MAX, badge, health, severity_of_dead_letters
from pyromq.dashboard.picture import GONE_MS, Health, Picture
from pyromq.errors import NetworkError, PyroError
from pyromq.model import MessageQueue
from pyromq.wire.bodies.connection_bodies import ConsumerConnections, MemberConnection
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.bodies.offset_bodies import TopicOffset
from pyromq.wire.bodies.topic_bodies import TopicConfig


def broker(address: str, name: str = "broker-a") -> BrokerSnapshot:
    return BrokerSnapshot("c", name, 0, address)


def gone(picture: Picture) -> list[tuple[str, int]]:
    return [(one.broker.address, one.since_ms) for one in picture.gone]


def test_a_broker_that_is_no_longer_listed_is_gone_since_then() -> None:
    picture = Picture(brokers=[broker("a:1"), broker("b:1")])

    picture.take_brokers([broker("b:1")], 7)

    assert gone(picture) == [("a:1", 7)]


def test_a_broker_that_comes_back_is_not_gone_any_more() -> None:
    picture = Picture(brokers=[broker("a:1")])
    picture.take_brokers([], 7)

    picture.take_brokers([broker("a:1")], 8)

    assert gone(picture) == []


def test_a_broker_that_is_gone_for_long_is_forgotten() -> None:
    picture = Picture(brokers=[broker("a:1")])
    picture.take_brokers([], 7)

    picture.take_brokers([], 6 + GONE_MS)
    assert gone(picture) == [("a:1", 7)]
    picture.take_brokers([], 7 + GONE_MS)
    assert gone(picture) == []


def account(name: str, **more: Any) -> dict[str, Any]:
    return {"accessKey": name, "secretKey": "never to be seen", "admin": False, **more}


def test_accounts_that_brokers_share_are_one_row_without_the_secret() -> None:
    said = [{"broker": name, "accounts": [account("shop", topicPerms=["a=PUB"])]} for name in ("one", "two")]

    rows = merged(said)

    assert [(row["name"], row["brokers"], row["differs"]) for row in rows] == [
        ("shop", ["one", "two"], False)
    ]
    assert "never to be seen" not in str(rows)


def test_an_account_that_brokers_have_differently_stands_there_in_each_form() -> None:
    said = [
        {"broker": "one", "accounts": [account("shop")]},
        {"broker": "two", "accounts": [account("shop", admin=True)]},
    ]

    assert [(row["brokers"], row["isAdmin"], row["differs"]) for row in merged(said)] == [
        (["one"], False, True),
        (["two"], True, True),
    ]


def finding(severity: str) -> dict[str, Any]:
    return {"severity": severity, "check": "disks", "message": "full", "facts": {}}


def test_a_badge_counts_findings_by_how_bad_they_are() -> None:
    report = {"well": False, "findings": [finding("problem"), finding("note"), finding("note")]}

    assert badge(Health(report=report, taken_at_ms=5)) == {
        "at": 5,
        "isWell": False,
        "counts": {"problem": 1, "warning": 0, "note": 2},
    }


def test_a_cluster_that_nobody_examined_is_neither_well_nor_ill() -> None:
    assert badge(Health())["isWell"] is None


def test_a_page_shows_so_many_findings_and_counts_the_rest() -> None:
    report = {"well": False, "findings": [finding("note")] * 900, "checked": {}, "could_not": []}

    shown = health(Picture(health=Health(report=report)), {})

    assert (len(shown["findings"]), shown["findingCount"]) == (SHOWN_MAX, 900)


def test_dead_letters_are_as_bad_as_the_doctor_finds_them() -> None:
    def found(severity: str, **facts: int) -> dict[str, Any]:
        return {"severity": severity, "facts": facts}

    findings = [found("problem", lag=9), found("warning", dead_letters=4), found("note", dead_letters=1)]

    assert severity_of_dead_letters(Health()) is None
    assert severity_of_dead_letters(Health(report={"findings": findings[:1]})) is None
    assert severity_of_dead_letters(Health(report={"findings": findings})) == "warning"


ORDERS = {name: MessageQueue("orders", name, 0) for name in ("broker-a", "broker-b")}
BOTH = frozenset(ORDERS)


def snapshot(*answering: str, **fields: Any) -> ClusterSnapshot:
    """Return a snapshot of two brokers, in which these answered the questions for all tables."""
    answered = {key: set(answering) for key in (Question.TOPICS, Question.GROUPS, Question.OFFSETS)}
    silent: dict[str, PyroError] = {
        f"{name}:1": NetworkError("gone") for name in ORDERS if name not in answering
    }
    brokers = [broker(f"{name}:1", name) for name in ORDERS]
    return ClusterSnapshot(brokers=brokers, answered=answered, silent=silent, **fields)


def whole() -> ClusterSnapshot:
    return snapshot(
        *BOTH,
        topics={"orders": {name: TopicConfig(topic_name="orders") for name in BOTH}},
        groups={"billing": {name: SubscriptionGroupConfig(group_name="billing") for name in BOTH}},
        offsets={"billing": {"orders": dict.fromkeys(ORDERS.values(), 5)}},
        queues={queue: TopicOffset(max_offset=9) for queue in ORDERS.values()},
    )


def shown(seen: ClusterSnapshot, picture: Picture | None = None, at_ms: int = 1) -> Picture:
    """Return a picture with all parts of a snapshot."""
    picture = picture or Picture()
    picture.take_brokers(seen.brokers, at_ms)
    picture.take_tables(seen)
    picture.take_offsets(seen, at_ms)
    picture.take_queues(seen, list(picture.topics.values()), at_ms)
    picture.take_members(seen, list(picture.groups.values()), at_ms)
    picture.take_failures(seen)
    picture.measure_lags(at_ms)
    return picture


def test_what_a_broker_said_stays_while_it_does_not_answer() -> None:
    picture = shown(whole())

    shown(snapshot("broker-a", offsets={"billing": {"orders": {ORDERS["broker-a"]: 7}}}), picture, at_ms=2)

    # The answering broker has neither the topic nor the group any more.
    assert set(picture.topics["orders"].configs) == {"broker-b"}
    assert set(picture.groups["billing"].configs) == {"broker-b"}
    assert picture.groups["billing"].offsets == {"orders": {ORDERS["broker-a"]: 7, ORDERS["broker-b"]: 5}}
    assert picture.topics["orders"].edges.keys() == {ORDERS["broker-b"]}
    assert picture.topics["orders"].failure == "broker-b does not answer: gone"


def test_what_no_broker_has_any_more_is_gone() -> None:
    picture = shown(whole())
    assert picture.groups["billing"].lag == 8

    shown(snapshot(*BOTH), picture, at_ms=2)

    assert (picture.topics, picture.groups) == ({}, {})


def test_a_group_keeps_its_members_while_no_broker_answers() -> None:
    picture = shown(whole())
    members = {"broker-a": ConsumerConnections(connections=[MemberConnection(client_id="c1")])}
    picture.groups["billing"].connections = dict(members)

    picture.take_members(snapshot(), [picture.groups["billing"]], 2)
    assert picture.groups["billing"].connections == members
    assert picture.groups["billing"].failure == "broker-a does not answer: gone"

    picture.take_members(snapshot("broker-b"), [picture.groups["billing"]], 3)
    assert picture.groups["billing"].member_ids == set()


def test_a_table_that_a_broker_refuses_is_a_trouble_until_it_is_given() -> None:
    asked = {Question.TOPICS: Moment(1, 1.0)}
    refused = {(Question.TOPICS, "broker-a:1", ""): NetworkError("no")}
    picture = Picture(troubles={"cluster": "away"})

    picture.take_failures(snapshot(*BOTH, asked_at=asked, unanswered=refused))
    assert picture.troubles == {"cluster": "away", "topics broker-a": "no"}

    picture.take_failures(snapshot(*BOTH))
    assert "topics broker-a" in picture.troubles
    picture.take_failures(snapshot(*BOTH, asked_at=asked))
    assert picture.troubles == {"cluster": "away"}
