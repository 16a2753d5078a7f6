"""`pyromq dlq` as it is typed, in this process, on a cluster in this process."""

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import Result
from dead_letter_stage import Undertaker, undertaker
from typer.testing import CliRunner

from pyromq import Admin, Perm
from pyromq.cli.main import app
from pyromq.cli.messages import dlq_replay
from pyromq.errors import ConfigError
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import eventually

_numbers = itertools.count(1)

Dlq = Callable[..., Result]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def grave(cluster: ThreadCluster) -> Iterator[Undertaker]:
    with undertaker(cluster.namesrv_address, cluster.broker_addresses) as one:
        yield one


@pytest.fixture
def dlq(cluster: ThreadCluster) -> Dlq:
    def run(*words: str) -> Result:
        return CliRunner().invoke(app, ["dlq", *words, "-n", cluster.namesrv_address])

    return run


@pytest.fixture
def group() -> str:
    return f"cli-group-{next(_numbers)}"


def bury(grave: Undertaker, group: str, count: int) -> None:
    for number in range(count):
        grave.bury(
            group, f"topic-{group}", f"body {number}".encode(), tags="ab"[number % 2], keys=[f"k{number}"]
        )


def records(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_groups_are_listed_with_how_many_they_have(dlq: Dlq, grave: Undertaker, group: str) -> None:
    bury(grave, group, 3)

    table = dlq("list")
    counts = {one["group"]: one["count"] for one in records(dlq("list", "--json"))}

    assert table.stdout.splitlines()[0].split() == ["GROUP", "DEAD", "LETTERS", "OLDEST"]
    assert counts[group] == 3


def test_a_list_has_a_row_for_each_dead_letter(dlq: Dlq, grave: Undertaker, group: str) -> None:
    bury(grave, group, 3)
    assert dlq("replay", group, "--key", "k1").exit_code == 0

    head, *rows = dlq("list", group).stdout.splitlines()
    found = records(dlq("list", group, "--json"))

    assert head.split() == ["DIED", "TOPIC", "TAG", "KEYS", "MESSAGE", "TRIES", "BYTES", "REPLAYED"]
    assert [row.split()[4] for row in rows] == ["k0", "k1", "k2"]
    assert all(record["message_id"] in row for record, row in zip(found, rows, strict=True))
    assert [(record["keys"], record["tags"], record["body"]) for record in found] == [
        (["k0"], "a", "body 0"),
        (["k1"], "b", "body 1"),
        (["k2"], "a", "body 2"),
    ]
    assert {(record["topic"], record["tries"]) for record in found} == {(f"topic-{group}", 1)}
    assert [record["replayed_to"] for record in found] == [None, f"%RETRY%{group}", None]


def test_a_list_is_as_short_as_its_filters_make_it(dlq: Dlq, grave: Undertaker, group: str) -> None:
    bury(grave, group, 3)

    def keys(*words: str) -> list[str]:
        return [record["keys"][0] for record in records(dlq("list", group, "--json", *words))]

    assert keys("--tag", "b") == ["k1"]
    assert keys("--key", "k2") == ["k2"]
    assert keys("--since", "1h", "--limit", "2") == ["k0", "k1"]
    assert keys("--until", "2020-01-01") == []
    assert keys("--topic", "another") == []
    assert keys("--limit", "0") == ["k0", "k1", "k2"]


def test_a_list_that_ends_at_its_limit_says_so(dlq: Dlq, grave: Undertaker, group: str) -> None:
    bury(grave, group, 3)

    assert "--limit 0 lists all" in dlq("list", group, "--limit", "2").stderr


def test_a_group_without_dead_letters_is_told_with_those_that_have_some(
    dlq: Dlq, grave: Undertaker, group: str
) -> None:
    bury(grave, group, 1)

    nobody = dlq("list", "nobody")
    none_like_that = dlq("list", group, "--key", "other")

    assert nobody.exit_code == 0
    assert "group nobody has no dead letters" in nobody.stderr
    assert group in nobody.stderr
    assert f"group {group} has 1 dead letters, but none is like that" in none_like_that.stderr


def test_a_time_that_does_not_read_is_refused(dlq: Dlq) -> None:
    with pytest.raises(ConfigError, match="--since yesterday: expected a time"):
        raise dlq("list", "any", "--since", "yesterday").exception or AssertionError


def test_one_dead_letter_is_shown_with_all_that_it_has(dlq: Dlq, grave: Undertaker, group: str) -> None:
    grave.bury(group, f"topic-{group}", b"two\nlines", keys=["k"], properties={"city": "Oslo"})
    (record,) = records(dlq("list", group, "--json"))

    for name in ("message_id", "dead_letter_id", "first_id"):
        shown = dlq("show", group, record[name])
        assert shown.exit_code == 0
        assert record["dead_letter_id"] in shown.stdout
    assert "  city               Oslo" in shown.stdout.splitlines()
    assert shown.stdout.splitlines()[-2:] == ["  two", "  lines"]
    assert records(dlq("show", group, record["message_id"], "--json")) == [record]
    assert dlq("show", group, record["message_id"], "--body-only").stdout == "two\nlines\n"


def test_a_body_that_is_no_text_is_shown_in_numbers(dlq: Dlq, grave: Undertaker, group: str) -> None:
    grave.bury(group, f"topic-{group}", bytes(range(256)) * 2)
    (record,) = records(dlq("list", group, "--json"))

    lines = dlq("show", group, record["message_id"]).stdout.splitlines()
    full = dlq("show", group, record["message_id"], "--full").stdout.splitlines()

    assert "  00000040  40 41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f  |@ABCDEFGHIJKLMNO|" in lines
    assert lines[-1] == "  … and 256 bytes more (--full)"
    assert full[-1].startswith("  000001f0  ")


def test_a_dead_letter_that_is_not_there_is_status_1(dlq: Dlq, grave: Undertaker, group: str) -> None:
    bury(grave, group, 1)

    assert dlq("show", group, "NONE").exit_code == 3


def test_a_replay_says_of_each_message_where_it_went(dlq: Dlq, grave: Undertaker, group: str) -> None:
    bury(grave, group, 2)

    lines = dlq("replay", group, "--all").stdout.splitlines()

    assert [line.split()[0] for line in lines[:2]] == ["replayed", "replayed"]
    assert f"topic-{group} → %RETRY%{group} broker-a queue 0 offset 1" in lines[1]
    assert lines[2].startswith("2 replayed in ")


def test_a_replay_for_programs_has_an_object_for_each_and_one_for_the_sum(
    dlq: Dlq, grave: Undertaker, group: str
) -> None:
    bury(grave, group, 3)
    dlq("replay", group, "--key", "k0")

    done = dlq("replay", group, "--all", "--json")
    *results, total = records(done)

    assert done.exit_code == 0
    assert [(one["keys"], one["outcome"], one["offset"]) for one in results] == [
        (["k0"], "skipped", 0),
        (["k1"], "replayed", 1),
        (["k2"], "replayed", 2),
    ]
    assert {one["error"] for one in results} == {None}
    assert total == {"replayed": 2, "would_replay": 0, "skipped": 1, "failed": 0, "is_stopped": False}


def test_a_dry_run_says_what_would_go_where_and_stores_nothing(
    dlq: Dlq, grave: Undertaker, group: str
) -> None:
    bury(grave, group, 2)

    to_group = dlq("replay", group, "--all", "--dry-run").stdout.splitlines()
    to_topic = dlq("replay", group, "--all", "--dry-run", "--to-topic").stdout.splitlines()

    assert all(line.startswith("would-replay") for line in to_group[:2])
    assert to_group[0].endswith(f"topic-{group} → %RETRY%{group} on broker-a")
    assert to_topic[0].endswith(f"topic-{group} → topic-{group} on broker-a")
    assert [one["replayed_to"] for one in records(dlq("list", group, "--json"))] == [None, None]


def test_a_replay_must_say_which(dlq: Dlq, group: str) -> None:
    assert "say which dead letters" in str(dlq("replay", group).exception)
    assert "--all goes with no other choice" in str(dlq("replay", group, "--all", "--key", "k").exception)


def test_many_are_not_replayed_without_a_yes(dlq: Dlq, grave: Undertaker, group: str) -> None:
    bury(grave, group, dlq_replay.MANY)

    refused = dlq("replay", group, "--all")
    few = dlq("replay", group, "--tag", "a")
    sure = dlq("replay", group, "--all", "--yes", "--json")

    assert refused.exit_code == 2
    assert f"Replay {dlq_replay.MANY} dead letters of group {group} to %RETRY%{group}?" in refused.stderr
    assert few.exit_code == 0
    half = dlq_replay.MANY // 2
    assert (records(sure)[-1]["replayed"], records(sure)[-1]["skipped"]) == (half, half)


@pytest.fixture
def closed_topic(cluster: ThreadCluster, grave: Undertaker, group: str) -> str:
    """A topic with three dead letters that may no longer be written to."""
    topic = f"closed-{group}"
    for number in range(3):
        grave.bury(group, topic, b"x", keys=[f"closed{number}"])
    with Admin(cluster.namesrv_address) as admin:
        admin.create_topic(topic, perm=Perm.READ)
        eventually(lambda: admin.route(topic).queue_datas[0].perm == Perm.READ, 30)
    return topic


def test_a_failure_is_told_with_its_cause_and_status_1(
    dlq: Dlq, grave: Undertaker, group: str, closed_topic: str
) -> None:
    bury(grave, group, 2)

    done = dlq("replay", group, "--all", "--to-topic", "--json")

    *results, total = records(done)
    assert done.exit_code == 1
    assert [one["outcome"] for one in results] == ["failed"] * 3 + ["replayed"] * 2
    assert f"topic '{closed_topic}' has no queue on broker broker-a" in results[0]["error"]
    assert (total["failed"], total["replayed"]) == (3, 2)
    text = dlq("replay", group, "--topic", closed_topic, "--to-topic")
    assert text.stdout.splitlines()[0].startswith("failed ")
    assert "run it again" in text.stderr


def test_failures_in_a_row_end_a_replay(dlq: Dlq, group: str, closed_topic: str) -> None:
    replay = ("replay", group, "--topic", closed_topic, "--to-topic", "--json")

    stopped = records(dlq(*replay, "--stop-after", "2"))[-1]
    to_the_end = records(dlq(*replay, "--stop-after", "0"))[-1]

    assert (stopped["failed"], stopped["is_stopped"]) == (2, True)
    assert (to_the_end["failed"], to_the_end["is_stopped"]) == (3, False)


def test_nothing_to_replay_is_no_failure(dlq: Dlq) -> None:
    assert dlq("replay", "nobody", "--all").exit_code == 0
    assert dlq("replay", "nobody", "--all", "--yes").exit_code == 0
