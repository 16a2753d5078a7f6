"""Apache's broker on our files, and ours on Apache's.

Two stores are handed from broker to broker; each looks at all of it through our client, writes more, and is
stopped or killed. And the same requests to both brokers must leave the same bytes, but for times.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from harness import same_bytes, servers
from harness.missing import unavailable
from harness.ports import free_broker_port
from harness.same_files import INDEX_SLOTS, LOG_FILE_BYTES, QUEUE_FILE_ENTRIES, Queue, View, keys_of
from harness.same_relay import READERS, RELAYS, End, Relay, Turn, run_relay
from harness.same_script import BILLS, DEAD_TOPIC, ORDERS, RETRY_TOPIC, RETRYING, Sent
from harness.toolchains import Unavailable

from pyromq import Perm, ReceivedMessage
from pyromq.wire.bodies.group_bodies import decode_group_table
from pyromq.wire.bodies.topic_bodies import decode_topic_table

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def relays(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Relay]]:
    """Both relays, one after the other on the same port: a message's id holds its broker's address."""
    folder = tmp_path_factory.mktemp("same_files")
    ports = free_broker_port(), free_broker_port()
    with ExitStack() as closing:
        ready = servers.start_pyromq(folder, closing, "namesrv", "namesrv", "-p", "0", "--data", str(folder))
        try:
            yield {name: run_relay(name, folder / name, ready["namesrv"], ports) for name in RELAYS}
        except Unavailable as reason:
            unavailable(reason)


def _handovers() -> Iterator[object]:
    for name, (turns, last) in RELAYS.items():
        kinds = [*(kind for kind, _ in turns), last]
        for index, (kind, end) in enumerate(turns):
            yield pytest.param((name, index), id=f"{name}: {kind} {end.value}, {kinds[index + 1]} opens")


@pytest.fixture(params=_handovers())
def handover(request: pytest.FixtureRequest, relays: dict[str, Relay]) -> tuple[Turn, Turn]:
    """A broker that left the store, and the one that opened it next."""
    name, index = request.param
    before, after = relays[name].turns[index : index + 2]
    return before, after


# The files that one broker leaves, opened by the other


@pytest.mark.row("ST-05", "ST-10", "ST-28")
def test_every_message_is_served_as_before(handover: tuple[Turn, Turn]) -> None:
    before, after = handover
    assert len(before.left.everything) > 300
    for queue, messages in before.left.messages.items():
        assert after.found.messages[queue][: len(messages)] == messages


@pytest.mark.row("ST-13")
def test_every_acknowledged_message_is_where_its_sender_was_told(handover: tuple[Turn, Turn]) -> None:
    before, after = handover
    assert before.sent
    assert before.last
    for sent in before.sent + before.last:
        message = _at(after.found, (sent.topic, sent.queue_id), sent.offset)
        assert (message.body, message.offset_message_id) == (sent.body, sent.offset_id)
        assert _kept_properties(sent).items() <= message.properties.items()


@pytest.mark.row("ST-12")
def test_no_queue_has_a_gap_or_a_repeat(handover: tuple[Turn, Turn]) -> None:
    _, after = handover
    assert after.found.messages
    for queue, messages in after.found.messages.items():
        begin, end = after.found.bounds[queue]
        assert [message.queue_offset for message in messages] == list(range(begin, end))


@pytest.mark.row("ST-21", "ST-23", "ST-24")
def test_every_message_is_found_by_each_of_its_keys(handover: tuple[Turn, Turn]) -> None:
    before, after = handover
    forgotten = before.forgotten if after.kind == "apache" else range(0)
    assert any(keys_of(message) for message in after.found.everything)
    for message in after.found.everything:
        for key in keys_of(message) if message.position not in forgotten else ():
            assert message.position in after.found.by_key[message.topic, key], (message.topic, key)


@pytest.mark.row("ST-08")
def test_every_message_is_found_by_its_id(handover: tuple[Turn, Turn]) -> None:
    _, after = handover
    assert after.found.everything
    for message in after.found.everything:
        assert after.found.by_id[message.offset_message_id] == message


def test_every_message_is_found_by_its_stored_time(handover: tuple[Turn, Turn]) -> None:
    _, after = handover
    assert after.found.by_time
    for (queue, stored_at_ms), offset in after.found.by_time.items():
        found_ms = _at(after.found, queue, offset).stored_at_ms
        # Apache's broker picks the file by the time of its last change, and stays in it: it may answer an
        # older message, at the end of an older file, but never a newer one.
        assert found_ms == stored_at_ms or (after.kind == "apache" and found_ms < stored_at_ms)


@pytest.mark.row("OF-01", "OF-03")
def test_the_progress_of_every_group_is_kept(handover: tuple[Turn, Turn]) -> None:
    before, after = handover
    progress = before.left.progress
    assert progress[f"{ORDERS}@{READERS}"].keys() == {0, 1, 2}
    assert {name: after.found.progress[name] for name in progress} == progress


@pytest.mark.row("ST-25")
def test_every_topic_is_kept_with_its_settings(handover: tuple[Turn, Turn]) -> None:
    before, after = handover
    topics = before.left.topics
    assert topics.keys() >= {ORDERS, BILLS, RETRY_TOPIC, DEAD_TOPIC}
    assert {config.read_queue_nums for name, config in topics.items() if "same-odd-" in name} == {5}
    assert {name: after.found.topics[name] for name in topics} == topics


@pytest.mark.row("ST-25")
def test_every_group_is_kept_with_its_settings(handover: tuple[Turn, Turn]) -> None:
    before, after = handover
    groups = before.left.groups
    assert groups.keys() >= {READERS, RETRYING}
    assert {name: after.found.groups[name] for name in groups} == groups


@pytest.mark.row("ST-25")
def test_a_delayed_message_on_its_way_is_delivered_once(handover: tuple[Turn, Turn]) -> None:
    before, after = handover
    delivered = [one for one in after.found.messages[BILLS, 0] if one.message_id == before.waiting]
    assert len(delivered) == 1
    assert after.found.delays.keys() >= before.left.delays.keys()
    assert all(after.found.delays[level] >= offset for level, offset in before.left.delays.items())


def test_a_transaction_begun_on_one_broker_is_committed_on_the_other(relays: dict[str, Relay]) -> None:
    assert relays
    for relay in relays.values():
        assert len(relay.turns) > 2
        for before, after in pairwise(relay.turns[:-1]):
            assert before.half is not None
            assert [one.body for one in after.found.messages[ORDERS, 0]].count(before.half.body) == 0
            assert [one.body for one in after.left.messages[ORDERS, 0]].count(before.half.body) == 1


def test_the_next_messages_continue_the_queues(handover: tuple[Turn, Turn]) -> None:
    _, after = handover
    continued = {(sent.topic, sent.queue_id) for sent in after.sent} & after.found.bounds.keys()
    assert continued
    for queue in continued:
        first = min(sent.offset for sent in after.sent if (sent.topic, sent.queue_id) == queue)
        assert first == after.found.bounds[queue][1]


@pytest.mark.row("ST-02")
def test_the_abort_file_tells_a_crash_from_a_stop(handover: tuple[Turn, Turn]) -> None:
    before, _ = handover
    assert before.has_abort is (before.end is End.KILL)


@pytest.mark.row("ST-03")
def test_the_checkpoint_of_a_stopped_broker_names_the_newest_message(relays: dict[str, Relay]) -> None:
    stopped = [turn for relay in relays.values() for turn in relay.turns if turn.end is End.STOP]
    assert {turn.kind for turn in stopped} == {"ours", "apache"}
    for turn in stopped:
        log_ms, queues_ms = turn.checkpoint_ms
        assert queues_ms == turn.newest_ms, turn.kind
        # Apache notes the log's time when a flush has work; on a busy machine that is not the last.
        assert log_ms == turn.newest_ms or (turn.kind == "apache" and log_ms < turn.newest_ms), turn.kind


def test_settings_that_are_not_the_defaults_are_kept(relays: dict[str, Relay]) -> None:
    assert relays
    for relay in relays.values():
        last = relay.turns[-1].found
        topics = [topic for name, topic in last.topics.items() if "same-odd-" in name]
        groups = [group for name, group in last.groups.items() if "same-odd-" in name]
        assert len(topics) == len(relay.turns) - 1
        assert {(one.write_queue_nums, one.perm, one.topic_sys_flag) for one in topics} == {(3, Perm.READ, 1)}
        assert {(one.retry_max_times, one.retry_queue_nums) for one in groups} == {(5, 3)}


def test_verifying_finds_no_fault_in_what_either_broker_leaves(relays: dict[str, Relay]) -> None:
    assert all(any(turn.report for turn in relay.turns) for relay in relays.values())
    for relay in relays.values():
        for turn in relay.turns:
            for report in filter(None, (turn.script_report, turn.report)):
                assert report.records > 250
                assert report.is_whole, (turn.kind, turn.end, report.listed)
                assert turn.end is End.KILL or not report.listed, (turn.kind, report.listed)


@pytest.mark.row("ST-04")
def test_our_broker_stays_out_of_a_store_that_apache_has_open(relays: dict[str, Relay]) -> None:
    assert relays
    for relay in relays.values():
        assert relay.turns[-1].kind == "apache"
        assert relay.intruder_status == 1
        assert "another process has the store open" in relay.intruder_output


@pytest.mark.row("ST-08")
def test_when_the_oldest_file_is_gone_both_serve_the_rest(relays: dict[str, Relay]) -> None:
    relay = relays["apache first"]
    whole, shortened = relay.turns[-2].left, relay.shortened
    for view in shortened.values():
        for queue, messages in whole.messages.items():
            rest = [one for one in messages if one.position >= LOG_FILE_BYTES]
            assert view.messages.get(queue, [])[: len(rest)] == rest
    assert shortened["ours"].bounds == shortened["apache"].bounds
    assert shortened["ours"].by_id == shortened["apache"].by_id
    assert shortened["ours"].by_key == shortened["apache"].by_key


# The same requests, and the bytes that they leave


@pytest.fixture
def ours(relays: dict[str, Relay]) -> Path:
    """The files that the script left on our broker."""
    return _script_files(relays["ours first"], "ours")


@pytest.fixture
def apaches(relays: dict[str, Relay]) -> Path:
    """The files that the script left on Apache's broker."""
    return _script_files(relays["apache first"], "apache")


def _script_files(relay: Relay, kind: str) -> Path:
    first = relay.turns[0]
    assert first.kind == kind
    assert first.script_files is not None
    return first.script_files


@pytest.mark.row("ST-05", "ST-06", "ST-07", "ST-09")
def test_the_same_requests_leave_the_same_log(ours: Path, apaches: Path) -> None:
    log, expected = same_bytes.log_files(ours), same_bytes.log_files(apaches)
    assert list(log) == [f"{index * LOG_FILE_BYTES:020d}" for index in range(2)]
    _assert_same(log, {name: expected[name] for name in log})
    # Apache's broker makes the next file ahead of time.
    assert not any(any(expected[name]) for name in expected.keys() - log.keys())


@pytest.mark.row("ST-10", "ST-11", "ST-12")
def test_the_same_requests_leave_the_same_consume_queues(ours: Path, apaches: Path) -> None:
    queues, expected = same_bytes.queue_files(ours), same_bytes.queue_files(apaches)
    assert f"{BILLS}/0/{QUEUE_FILE_ENTRIES * 20:020d}" in queues
    _assert_same(queues, expected)


@pytest.mark.row("ST-17", "ST-18", "ST-19", "ST-20", "ST-21", "ST-22")
def test_the_same_requests_leave_the_same_index(ours: Path, apaches: Path) -> None:
    index, expected = (same_bytes.index_files(root, INDEX_SLOTS) for root in (ours, apaches))
    assert len(index) == 2
    _assert_same(dict(enumerate(index)), dict(enumerate(expected)))


@pytest.mark.row("ST-18", "ST-19")
def test_the_times_in_the_index_are_those_of_the_log(ours: Path, apaches: Path) -> None:
    assert same_bytes.wrong_index_times(apaches, INDEX_SLOTS) == []
    assert same_bytes.wrong_index_times(ours, INDEX_SLOTS) == []


@pytest.mark.row("ST-01", "ST-04", "ST-25")
def test_the_same_requests_leave_the_same_kinds_of_files(ours: Path, apaches: Path) -> None:
    assert {path.name for path in ours.iterdir()} == {path.name for path in apaches.iterdir()} - {"abort"}
    assert (ours / "lock").read_bytes() == (apaches / "lock").read_bytes() == b"lock"
    assert (ours / "checkpoint").stat().st_size == (apaches / "checkpoint").stat().st_size


@pytest.mark.row("ST-25")
def test_the_same_requests_leave_the_same_tables(ours: Path, apaches: Path) -> None:
    for name, table in (("topics", "topic_config_table"), ("subscriptionGroup", "subscription_group_table")):
        decode = decode_topic_table if name == "topics" else decode_group_table
        files = [decode((root / f"config/{name}.json").read_bytes()) for root in (ours, apaches)]
        assert getattr(files[0], table) == getattr(files[1], table)
        assert files[0].data_version.counter == files[1].data_version.counter


def _assert_same(files: Mapping[Any, bytes], expected: Mapping[Any, bytes]) -> None:
    """Compare bytes, and on a difference say where it is instead of printing a megabyte."""
    assert files.keys() == expected.keys()
    for name, data in files.items():
        if data != expected[name]:
            at = next(
                at for at, (one, two) in enumerate(zip(data, expected[name], strict=False)) if one != two
            )
            near = slice(max(at - 40, 0), at + 40)
            raise AssertionError(f"{name} differs at byte {at}: {data[near]!r} {expected[name][near]!r}")


def _at(view: View, queue: Queue, offset: int) -> ReceivedMessage:
    return view.messages[queue][offset - view.bounds[queue][0]]


def _kept_properties(sent: Sent) -> dict[str, str]:
    """Return the properties that are stored: RocketMQ leaves WAIT out of all but diverted messages."""
    return {name: value for name, value in sent.properties.items() if name != "WAIT"}
