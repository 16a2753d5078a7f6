"""What Spark's users see of an error: one frame, and the sentence."""

import traceback
from collections.abc import Iterator

import pytest

from pyromq.errors import ConfigError, NetworkError
from pyspark_rocketmq.plain_errors import plain_errors


@plain_errors("plan", "read", "count")
class Source:
    def plan(self) -> int:
        try:
            raise NetworkError("connection refused")
        except NetworkError as error:
            raise ConfigError("the name is wrong; correct it") from error

    def read(self) -> Iterator[int]:
        yield 1
        self.plan()

    def count(self) -> int:
        return [][0]


def lines_of(error: BaseException) -> list[str]:
    return "".join(traceback.format_exception(error)).splitlines()


def test_an_error_of_ours_has_no_causes_and_no_frames_of_ours() -> None:
    with pytest.raises(ConfigError) as planned:
        Source().plan()
    rows = Source().read()
    assert next(rows) == 1
    with pytest.raises(ConfigError) as read:
        next(rows)

    for caught in (planned.value, read.value):
        lines = lines_of(caught)
        assert lines[-1].endswith("ConfigError: the name is wrong; correct it")
        assert not any("NetworkError" in line for line in lines)
        assert sum("in plan" in line for line in lines) == 0


def test_a_mistake_of_the_program_keeps_its_trace() -> None:
    with pytest.raises(IndexError) as caught:
        Source().count()

    assert any("in count" in line for line in lines_of(caught.value))
