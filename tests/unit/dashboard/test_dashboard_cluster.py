"""Brokers that go and come back, accounts, and the doctor's findings, without a cluster."""

from typing import Any

from pyromq.dashboard.access import merged
from pyromq.dashboard.health import SHOWN_MAX, badge, health, severity_of_dead_letters
from pyromq.dashboard.picture import Broker, Health, Picture
from pyromq.dashboard.sampler import GONE_MS, gone


def broker(address: str, name: str = "broker-a") -> Broker:
    return Broker(cluster="c", name=name, broker_id=0, address=address)


def test_a_broker_that_is_no_longer_listed_is_gone_since_then() -> None:
    picture = Picture(brokers=[broker("a:1"), broker("b:1")])

    assert [(one.address, one.gone_at_ms) for one in gone(picture, [broker("b:1")], 7)] == [("a:1", 7)]


def test_a_broker_that_comes_back_is_not_gone_any_more() -> None:
    left = broker("a:1")
    left.gone_at_ms = 7

    assert gone(Picture(gone=[left]), [broker("a:1")], 8) == []


def test_a_broker_that_is_gone_for_long_is_forgotten() -> None:
    left = broker("a:1")
    left.gone_at_ms = 7
    picture = Picture(gone=[left])

    assert gone(picture, [], 6 + GONE_MS) == [left]
    assert gone(picture, [], 7 + GONE_MS) == []


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
