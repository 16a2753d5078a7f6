"""Masters and slaves of ours and of Apache's 4.9, in all pairings, on name servers of both.

`--server apache-4.9` runs the same on Apache's own servers alone: is the story right?
"""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from harness.missing import unavailable
from harness.replicas import LOG_FILE_BYTES
from harness.replication_story import CALIBRATION, CASTS, COMMITTED, QUEUES, TOPIC, Sight, Story, Telling
from harness.toolchains import Unavailable

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

SERVICE_NOT_AVAILABLE = 14


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tell the story of each cast; of Apache's alone when that is asked for."""
    wanted = metafunc.config.getoption("--server", None) or []
    casts = CALIBRATION if "apache-4.9" in wanted else CASTS
    metafunc.parametrize("story", list(casts), indirect=True, scope="module")


@pytest.fixture(scope="module")
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """The story of one cast, told once."""
    cast = (CASTS | CALIBRATION)[request.param]
    with ExitStack() as closing:
        try:
            yield Telling(cast, tmp_path_factory.mktemp("replicas"), closing).tell()
        except Unavailable as error:
            unavailable(error)


def is_copy(sight: Sight | None) -> bool:
    """Return whether the slave's log is the master's, byte for byte, from where it begins."""
    assert sight is not None
    return sight.slave.data == sight.master.behind(sight.slave.start)


@pytest.mark.row("HA-01", "NS-11")
def test_master_and_slave_are_registered_under_one_name_with_their_ids(story: Story) -> None:
    assert story.ids == story.addresses


@pytest.mark.row("HA-02")
def test_a_synchronous_master_without_a_slave_says_so(story: Story) -> None:
    assert story.statuses.alone == "SLAVE_NOT_AVAILABLE"


@pytest.mark.row("HA-02", "HA-10")
def test_a_slave_that_follows_makes_every_send_safe(story: Story) -> None:
    assert story.statuses.attached == {"SEND_OK"}


def test_a_slave_s_log_is_its_master_s_byte_for_byte(story: Story) -> None:
    assert story.followed is not None
    assert is_copy(story.followed)
    assert story.followed.slave.start == 0
    assert story.followed.slave.files > 1, "the copy went across an end of a file"


def test_a_slave_s_queues_hold_what_its_master_s_hold(story: Story) -> None:
    assert story.read_at_slave == story.read_at_master
    assert {stored.queue for stored in story.read_at_slave} == set(range(QUEUES))


@pytest.mark.row("HA-13")
@pytest.mark.parametrize("table", ["topics", "groups", "offsets", "delays"])
def test_a_slave_copies_the_tables(story: Story, table: str) -> None:
    at_master, at_slave = story.tables[table]
    assert at_master == at_slave
    if table == "topics":
        assert at_slave[TOPIC]["readQueueNums"] == QUEUES
    if table == "offsets":
        assert at_slave == {"0": COMMITTED}


@pytest.mark.row("HA-06")
def test_a_slave_refuses_sends(story: Story) -> None:
    assert story.refusal == SERVICE_NOT_AVAILABLE


@pytest.mark.row("HA-02")
def test_a_slave_that_does_not_answer_in_time_makes_it_a_timeout(story: Story) -> None:
    assert story.statuses.frozen == "FLUSH_SLAVE_TIMEOUT"
    assert story.statuses.thawed == "SEND_OK"


@pytest.mark.row("HA-02")
def test_without_its_slave_a_synchronous_master_stores_and_says_that_it_is_alone(story: Story) -> None:
    assert story.statuses.killed in ("SLAVE_NOT_AVAILABLE", "FLUSH_SLAVE_TIMEOUT")
    assert story.statuses.in_the_gap == {"SLAVE_NOT_AVAILABLE"}


def test_a_slave_that_was_away_catches_up_from_where_it_stopped(story: Story) -> None:
    assert story.after_the_gap is not None
    assert is_copy(story.after_the_gap)
    assert story.after_the_gap.slave.start == 0
    assert story.statuses.after_the_gap == "SEND_OK"


def test_a_slave_from_zero_begins_with_its_master_s_last_file(story: Story) -> None:
    sight = story.from_the_last_file
    assert sight is not None
    assert is_copy(sight)
    assert sight.slave.start > 0
    assert sight.slave.start % LOG_FILE_BYTES == 0
    assert sight.slave.files == 1


def test_the_queues_of_a_slave_from_zero_have_their_master_s_offsets(story: Story) -> None:
    assert {stored.queue for stored in story.read_at_second} == set(range(QUEUES))
    assert all((stored.queue, stored.offset) in story.sent for stored in story.read_at_second)


@pytest.mark.row("HA-03")
def test_of_two_slaves_one_is_enough(story: Story) -> None:
    assert story.statuses.one_of_two_frozen == "SEND_OK"


@pytest.mark.row("HA-07")
def test_a_java_consumer_reads_on_from_the_slave_when_the_master_is_gone(story: Story) -> None:
    assert not story.read_before >= story.sent, "something was left to read"
    assert story.read_while_away >= story.read_before


def test_a_master_that_comes_back_is_followed_again(story: Story) -> None:
    assert is_copy(story.master_back)
    assert story.statuses.master_back == "SEND_OK"


def test_what_was_read_at_the_slave_is_committed_at_the_master_in_the_end(story: Story) -> None:
    assert story.committed_at_the_end == story.ends
