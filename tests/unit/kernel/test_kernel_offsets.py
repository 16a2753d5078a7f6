"""The kernel commits and tells offsets as Python does, and leaves to Python what it has not seen done."""

from pathlib import Path

import pytest

from pyromq.broker.groups.offset_shortcut import make_offsets
from pyromq.broker.groups.offsets import OffsetTable
from pyromq.codes import CommandFlag, RequestCode, ResponseCode, Serializer
from pyromq.wire.command import Command, encode

kernel = pytest.importorskip("pyromq._kernel.requests.offsets")

from kernel_inlets import answers_of, inlet  # noqa: E402  it needs the kernel

ROOM = 1 << 20
QUERY, COMMIT = RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.UPDATE_CONSUMER_OFFSET
BOTH = pytest.mark.parametrize("serializer", [Serializer.JSON, Serializer.ROCKETMQ])


def asked(code: int, *, opaque: int = 7, flag: int = 0, serializer: int = 0, **changes: object) -> bytes:
    fields = {"consumerGroup": "readers", "topic": "orders", "queueId": 3} | changes
    ext = {name: str(value) for name, value in fields.items()}
    return encode(Command(code, opaque=opaque, flag=flag, ext=ext, serializer=serializer))


def answered(ext: dict[str, str], *, opaque: int = 7, serializer: int = 0) -> bytes:
    answer = Command(
        ResponseCode.SUCCESS, opaque=opaque, flag=CommandFlag.RESPONSE, ext=ext, serializer=serializer
    )
    return encode(answer)


@pytest.fixture
def table(tmp_path: Path) -> OffsetTable:
    table = OffsetTable(tmp_path / "consumerOffset.json")
    table.commit("readers", "orders", 3, 10)
    return table


def taught(table: OffsetTable, *, takes_commits: bool = True) -> "kernel.Offsets":
    offsets = make_offsets()
    kept = table.kept("readers", "orders")
    assert kept is not None
    offsets.learn(b"readers\x00orders\x003\x00", kept, 3, "orders@readers", takes_commits=takes_commits)
    return offsets


def handled(offsets: "kernel.Offsets", received: bytes, room: int = ROOM) -> tuple[int, bytes, set[str]]:
    made = inlet(received, room=room)
    _, changed = offsets.answer([made])
    return len(received) - made.pending_bytes, answers_of(made), changed


@BOTH
def test_a_query_sees_the_commit_before_it_in_the_same_bytes(table: OffsetTable, serializer: int) -> None:
    asks = [
        asked(COMMIT, opaque=1, serializer=serializer, commitOffset=12),
        asked(COMMIT, opaque=2, serializer=serializer, commitOffset=14, flag=CommandFlag.ONEWAY),
        asked(QUERY, opaque=3, serializer=serializer),
    ]
    received = b"".join(asks)
    assert handled(taught(table), received) == (
        len(received),
        answered({}, opaque=1, serializer=serializer)
        + answered({"offset": "14"}, opaque=3, serializer=serializer),
        {"orders@readers"},
    )
    assert table.progress("readers", "orders", 3) == 14


def test_a_commit_of_the_same_offset_changes_nothing(table: OffsetTable) -> None:
    received = asked(COMMIT, commitOffset=10)
    assert handled(taught(table), received) == (len(received), answered({}), set())


@pytest.mark.parametrize(
    "ask",
    [
        asked(COMMIT, commitOffset=9),
        asked(COMMIT),
        asked(COMMIT, commitOffset="x"),
        asked(COMMIT, commitOffset=11, queueId=4),
        asked(COMMIT, commitOffset=11, consumerGroup="others"),
        asked(COMMIT, commitOffset=11, topic='or"ders'),
        asked(COMMIT, commitOffset=11, bname='a"b'),
        asked(COMMIT, commitOffset=11, flag=CommandFlag.RESPONSE),
        asked(QUERY, queueId=4),
        asked(QUERY, setZeroIfNotFound="perhaps"),
        asked(QUERY, flag=CommandFlag.ONEWAY),
        asked(RequestCode.GET_MAX_OFFSET),
        asked(COMMIT, commitOffset=11)[:-1],
    ],
)
def test_what_is_not_as_it_was_is_left_to_python(table: OffsetTable, ask: bytes) -> None:
    assert handled(taught(table), ask) == (0, b"", set())
    assert table.progress("readers", "orders", 3) == 10


def test_a_slave_leaves_commits_to_python_and_answers_queries(table: OffsetTable) -> None:
    offsets = taught(table, takes_commits=False)
    assert handled(offsets, asked(COMMIT, commitOffset=12)) == (0, b"", set())
    assert handled(offsets, asked(QUERY))[1] == answered({"offset": "10"})


def test_answers_stop_where_a_link_has_no_room(table: OffsetTable) -> None:
    received = asked(QUERY) * 3
    end, answers, _ = handled(taught(table), received, room=1)
    assert (end, answers) == (len(asked(QUERY)), answered({"offset": "10"}))


def test_progress_that_came_from_a_master_is_what_is_answered(table: OffsetTable) -> None:
    offsets = taught(table)
    table.follow({"orders@readers": {3: 40, 4: 2}})
    assert handled(offsets, asked(QUERY))[1] == answered({"offset": "40"})
    table.follow({"orders@readers": {4: 3}})
    assert handled(offsets, asked(QUERY)) == (0, b"", set())


def test_a_number_that_is_no_offset_is_left_to_python(table: OffsetTable) -> None:
    offsets = taught(table)
    table.follow({"orders@readers": {3: 1 << 70}})
    assert handled(offsets, asked(QUERY)) == (0, b"", set())
    table.follow({"orders@readers": {3: -1}})
    assert handled(offsets, asked(QUERY)) == (0, b"", set())
