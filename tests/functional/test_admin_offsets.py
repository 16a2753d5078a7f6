"""Where groups go on, changed by operators: to any place, with members or without, looked at before."""

import itertools
import json
import shlex
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from admin_stage import AdminStage
from typer.testing import CliRunner

from pyromq import Admin, ConsumeFrom, PushConsumer
from pyromq.cli import confirmation
from pyromq.cli.main import app
from pyromq.client.plans.admin.offset_changes import Target, To
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import eventually

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster(2) as cluster:
        yield cluster


@pytest.fixture
def stage(cluster: ThreadCluster) -> AdminStage:
    return AdminStage(cluster.namesrv_address)


@pytest.fixture
def topic() -> str:
    return f"topic-{next(_numbers)}"


@pytest.fixture
def group() -> str:
    return f"group-{next(_numbers)}"


def places(stage: AdminStage, topic: str, group: str) -> list[int | None]:
    """Return where a group is in the queues broker-a:0, broker-a:1, broker-b:0, broker-b:1."""
    found = stage.progress(topic, group)
    return [found[queue] for queue in sorted(found)]


# Nobody is connected -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "after"),
    [
        (("--to", "first"), [0, 0, 0, 0]),
        (("--to", "last"), [4, 4, 4, 4]),
        (("--to", "3"), [3, 3, 3, 3]),
        (("--to", "1"), [1, 1, 1, 1]),
        (("--to", "99"), [4, 4, 4, 4]),
        (("--time", "1h"), [0, 0, 0, 0]),
        (("--time", "+1h"), [4, 4, 4, 4]),
        (("--to", "3", "--back-only"), [2, 2, 2, 2]),
        (("--to", "1", "--back-only"), [1, 1, 1, 1]),
        (("--to", "1", "--queue", "broker-a:1"), [2, 1, 2, 2]),
        (("--to", "last", "--queue", "broker-a:1", "--queue", "broker-b:0"), [2, 4, 4, 2]),
    ],
)
def test_a_group_goes_on_elsewhere_and_a_dry_run_says_so_before(
    stage: AdminStage, topic: str, group: str, words: tuple[str, ...], after: list[int]
) -> None:
    stage.fill(topic, 16)
    stage.commit(topic, group, 2)

    looked = stage.records("group", "reset", group, "-t", topic, *words, "--dry-run")
    assert places(stage, topic, group) == [2, 2, 2, 2]
    done = stage.records("group", "reset", group, "-t", topic, *words, "--yes")

    assert places(stage, topic, group) == after
    assert [(row["before"], row["after"]) for row in looked] == [
        (row["before"], row["after"]) for row in done
    ]
    assert all(row["now"] == row["after"] and row["is_done"] for row in done)
    assert not any(row["is_done"] for row in looked)


def test_a_time_is_the_first_message_stored_then_or_later(stage: AdminStage, topic: str, group: str) -> None:
    """29 answers any of those that were stored in one millisecond, and the nearest if none was."""
    stage.fill(topic, 200, queues=1)
    times = {
        (row["broker"], row["offset"]): row["stored_at_ms"]
        for row in stage.records("admin", "printMsg", "-t", topic, "-d", "false")
    }
    assert len(times) == 200
    for at_ms in sorted(set(times.values()))[:: max(len(set(times.values())) // 4, 1)]:
        for wanted_ms in (at_ms, at_ms + 1):
            with Admin(stage.name_server) as admin:
                seen = admin.look_at_reset(group, topic, Target(To.TIME, wanted_ms))

            assert {move.queue.broker_name: move.after for move in seen.moves} == {
                name: min(
                    (at for (on, at), ms in times.items() if on == name and ms >= wanted_ms), default=100
                )
                for name in ("broker-a", "broker-b")
            }


def test_a_group_that_never_read_is_set(stage: AdminStage, topic: str, group: str) -> None:
    stage.fill(topic, 16)

    rows = stage.records("group", "reset", group, "-t", topic, "--to", "last", "--yes")

    assert {(row["before"], row["skips"]) for row in rows} == {(None, 4)}
    assert places(stage, topic, group) == [4, 4, 4, 4]


def test_people_read_what_moves(stage: AdminStage, topic: str, group: str) -> None:
    stage.fill(topic, 16)
    stage.commit(topic, group, 1)

    shown = stage.run("group", "reset", group, "-t", topic, "--to", "3", "--dry-run").stdout.splitlines()

    assert shown[0].split()[-2:] == ["#rollbackOffset", "#skips"]
    assert shown[1].split() == ["broker-a", "0", "0", "4", "1", "3", "2"]
    assert shown[-2] == "4 of 4 queues would move; 8 messages would be skipped; 0 would be read again"
    assert shown[-1] == "nobody of the group is connected"


def test_mqadmins_commands_move_the_group(stage: AdminStage, topic: str, group: str) -> None:
    stage.fill(topic, 16)
    stage.commit(topic, group, 2)
    words = ("-g", group, "-t", topic)

    assert stage.admin("resetOffsetByTime", *words, "-s", "1h", "--dry-run").exit_code == 0
    assert places(stage, topic, group) == [2, 2, 2, 2]
    assert stage.admin("resetOffsetByTime", *words, "-s", "1h").exit_code == 0
    assert places(stage, topic, group) == [0, 0, 0, 0]
    assert stage.admin("resetOffsetByTime", *words, "-s", "now", "-f", "false").exit_code == 0
    assert places(stage, topic, group) == [0, 0, 0, 0]
    assert stage.admin("skipAccumulatedMessage", *words).exit_code == 0
    assert places(stage, topic, group) == [4, 4, 4, 4]
    assert stage.admin("resetOffsetByTimeOld", *words, "-s", "2020-01-31#12:00:00:000").exit_code == 0
    assert places(stage, topic, group) == [0, 0, 0, 0]


def test_a_group_goes_on_where_another_is(stage: AdminStage, topic: str, group: str) -> None:
    stage.fill(topic, 16)
    stage.commit(topic, group, 3)
    words = ("cloneGroupOffset", "-s", group, "-d", f"{group}-2", "-t", topic)

    assert stage.admin(*words, "--dry-run").exit_code == 0
    assert places(stage, topic, f"{group}-2") == [None] * 4 or places(stage, topic, f"{group}-2") == [0] * 4
    assert "clone group offset success" in stage.admin(*words).stdout
    assert places(stage, topic, f"{group}-2") == [3, 3, 3, 3]
    assert stage.run("group", "clone", group, f"{group}-3", "-t", topic, "--yes").exit_code == 0
    assert places(stage, topic, f"{group}-3") == [3, 3, 3, 3]


def test_wrong_words_end_with_2(stage: AdminStage, topic: str, group: str) -> None:
    stage.fill(topic, 4)
    reset = ("group", "reset", group, "-t", topic, "--yes")

    for words in (
        (),
        ("--to", "first", "--time", "1h"),
        ("--to", "middle"),
        ("--time", "noon"),
        ("--to", "first", "--queue", "3"),
        ("--to", "first", "--queue", "broker-x:0"),
    ):
        ended = stage.run(*reset, *words)
        assert ended.exit_code == 2, words
    assert stage.run("group", "reset", group, "-t", "nowhere", "--to", "first", "--yes").exit_code == 3


def test_a_person_is_asked(
    stage: AdminStage, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.fill(topic, 16)
    stage.commit(topic, group, 2)
    monkeypatch.setattr(confirmation, "has_terminal", lambda: True)
    words = ["group", "reset", group, "-t", topic, "--to", "first", "-n", stage.name_server]

    refused = CliRunner().invoke(app, words, input="n\n")
    left = set(stage.progress(topic, group).values())
    agreed = CliRunner().invoke(app, words, input="y\n")

    assert (refused.exit_code, left) == (1, {2})
    assert f"Change the progress of {group} in {topic}?" in refused.stderr
    assert (agreed.exit_code, set(stage.progress(topic, group).values())) == (0, {0})


# Members are connected -----------------------------------------------------------------------------------


class Reader:
    """A member of a group, and what it read."""

    def __init__(self, stage: AdminStage, topic: str, group: str) -> None:
        self._lock = threading.Lock()
        self._bodies: list[str] = []
        self.consumer = PushConsumer(
            group,
            stage.name_server,
            listener=self._take,
            consume_from=ConsumeFrom.FIRST_OFFSET,
            persist_consumer_offset_interval=200,
        )
        self.consumer.subscribe(topic)

    def _take(self, message: object) -> None:
        with self._lock:
            self._bodies.append(message.body.decode())  # type: ignore[attr-defined]

    def read(self) -> list[str]:
        """Return what was read since it was asked last."""
        with self._lock:
            bodies, self._bodies = self._bodies, []
            return bodies

    @property
    def count(self) -> int:
        """How much was read since it was asked last."""
        with self._lock:
            return len(self._bodies)


@pytest.fixture
def reader(stage: AdminStage, topic: str, group: str) -> Iterator[Reader]:
    stage.fill(topic, 16)
    reader = Reader(stage, topic, group)
    with reader.consumer:
        eventually(lambda: reader.count == 16)
        reader.read()
        yield reader


@pytest.mark.parametrize(
    ("target", "count"), [(Target(To.FIRST), 16), (Target(To.OFFSET, 3), 4), (Target(To.TIME, 0), 16)]
)
def test_members_read_again_from_where_they_are_told(
    stage: AdminStage, reader: Reader, topic: str, group: str, target: Target, count: int
) -> None:
    with Admin(stage.name_server) as admin:
        done = admin.reset_offsets(group, topic, target)

    assert done.is_online
    assert done.is_whole
    eventually(lambda: reader.count == count, timeout_s=60)
    eventually(lambda: places(stage, topic, group) == [4, 4, 4, 4])


def test_members_read_one_queue_again(stage: AdminStage, reader: Reader, topic: str, group: str) -> None:
    ended = stage.run("group", "reset", group, "-t", topic, "--to", "2", "--queue", "broker-b:1", "--yes")

    assert ended.exit_code == 0
    assert "1 member was told" in ended.stdout
    eventually(lambda: reader.count == 2, timeout_s=60)


@pytest.mark.usefixtures("reader")
def test_a_look_names_the_members(stage: AdminStage, topic: str, group: str) -> None:
    shown = stage.run("group", "reset", group, "-t", topic, "--to", "first", "--dry-run").stdout

    (member,) = stage.records("group", "members", group)
    assert f"1 member is connected, and will be told: {member['client_id']}" in shown


@pytest.mark.usefixtures("reader")
def test_the_old_command_leaves_members_as_they_are_and_says_so(
    stage: AdminStage, topic: str, group: str
) -> None:
    shown = stage.admin("resetOffsetByTimeOld", "-g", group, "-t", topic, "-s", "1h").stdout

    assert "1 member is connected: restart the group, or it writes over this" in shown


def test_a_broker_that_is_gone_ends_with_1_and_the_others_are_changed(topic: str, group: str) -> None:
    with running_cluster(2) as own:
        stage = AdminStage(own.namesrv_address)
        stage.fill(topic, 16)
        stage.commit(topic, group, 2)
        with Admin(own.namesrv_address) as admin:
            seen = admin.look_at_reset(group, topic, Target(To.FIRST))
            assert len(seen.moves) == 4
        own.stop_broker("broker-b")
        ended = stage.run("group", "reset", group, "-t", topic, "--to", "first", "--yes", "--json")
        rows = json.loads(ended.stdout.splitlines()[0])

    assert (rows["broker"], rows["now"]) == ("broker-a", 0)


# The page ------------------------------------------------------------------------------------------------


def test_the_commands_of_the_page_do_what_it_says() -> None:
    page = (Path(__file__).parents[2] / "docs/howto/offsets.md").read_text()
    commands = [line.strip() for line in page.splitlines() if line.startswith("    pyromq ")]
    with running_cluster(1) as own:
        stage = AdminStage(own.namesrv_address)
        stage.fill("orders", 16)
        stage.commit("orders", "billing", 2)
        looked = stage.run("group", "reset", "billing", "-t", "orders", "--to", "first", "--dry-run").stdout

        ended = {command: stage.run(*shlex.split(command)[1:]) for command in commands}

    assert len(commands) == 15
    assert {command: one.output for command, one in ended.items() if one.exit_code} == {}
    for line in ("broker-a     0         0           8              2                0                -2",):
        assert line in looked
        assert line in page
