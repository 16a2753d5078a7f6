"""Compiled reading of popped records' heads, compared with Python's."""

from random import Random

import pytest
from kernel_shown_targets import random_record

from pyromq.broker.pop.pop_reading import split_records
from pyromq.codes import SysFlag
from pyromq.wire.record import Record, encode_host, encode_record

compiled = pytest.importorskip("pyromq._kernel.requests.popped_records")


def record(**given: object) -> bytes:
    host = encode_host("127.0.0.1", 10911)
    facts: dict[str, object] = {"born_host": host, "store_host": host, "properties": "TAGS\x01a\x02"}
    return encode_record(Record("orders", b"body", **(facts | given)))  # type: ignore[arg-type]


def test_each_record_has_its_size_offset_position_and_next_attempt() -> None:
    first = record(queue_offset=5, position=1 << 40, reconsume_times=0)
    second = record(queue_offset=9, position=7000, reconsume_times=3, properties="")
    assert compiled.split_records(first + second) == (
        [len(first), len(second)],
        [5, 9],
        [1 << 40, 7000],
        [1, 4],
    )


@pytest.mark.parametrize("seed", range(60))
def test_the_kernel_says_what_python_says_or_leaves_it(seed: int) -> None:
    random = Random(seed)
    records = b"".join(random_record(random) for _ in range(random.randrange(0, 40)))
    found = compiled.split_records(records)
    assert found is None or found == split_records(records)


def test_the_most_that_a_pop_brings_is_read_here() -> None:
    records = b"".join(record(queue_offset=at, position=at * 1000) for at in range(32))
    found = compiled.split_records(records)
    assert found is not None
    assert found == split_records(records)


def test_hosts_of_ipv6_are_pythons_and_python_finds_the_attempts_behind_them() -> None:
    far = encode_host("::1", 1)
    both = record(
        born_host=far,
        store_host=far,
        sys_flag=int(SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6),
        reconsume_times=2,
        queue_offset=4,
    )
    assert compiled.split_records(both) is None
    assert split_records(both) == ([len(both)], [4], [0], [3])


@pytest.mark.parametrize("cut", [1, 3, 50, 90])
def test_a_record_that_is_cut_is_left(cut: int) -> None:
    whole = record()
    assert compiled.split_records(whole + whole[:cut]) is None


def test_more_than_one_pop_brings_is_left() -> None:
    assert compiled.split_records(record() * 65) is None
