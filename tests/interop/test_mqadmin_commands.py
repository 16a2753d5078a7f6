"""Every command of Apache's mqadmin 4.9.8 on our cluster prints what it prints on a real one.

`recorded/mqadmin_4.9.json` is what it printed there; `test_mqadmin_record.py` looks whether it still does.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from harness.missing import unavailable
from harness.mqadmin import Mqadmin, Printed
from harness.mqadmin_story import FIRST, STEPS, compared, read_record, tell
from harness.servers import start_ours
from harness.toolchains import Unavailable

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

RECORD = Path(__file__).parent / "recorded" / "mqadmin_4.9.json"
RECORDED = read_record(RECORD)
COMMAND_COUNT = 56


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mqadmin")


@pytest.fixture(scope="module")
def mqadmin(folder: Path) -> Iterator[Mqadmin]:
    try:
        mqadmin = Mqadmin(folder)
    except Unavailable as error:
        unavailable(error)
    with mqadmin:
        yield mqadmin


@pytest.fixture(scope="module")
def told(folder: Path, mqadmin: Mqadmin) -> Iterator[dict[str, Printed]]:
    with ExitStack() as closing:
        yield tell(start_ours(folder, closing, traceTopicEnable="true"), mqadmin, folder)


def test_the_story_has_every_command(mqadmin: Mqadmin) -> None:
    listed = [line.split()[0] for line in mqadmin.run().text.splitlines() if line.startswith("   ")]
    assert len(listed) == COMMAND_COUNT
    assert {step.command for step in (*FIRST, *STEPS)} == set(listed)


def test_the_record_has_the_whole_story(told: dict[str, Printed]) -> None:
    assert list(told) == list(RECORDED)


@pytest.mark.parametrize("words", RECORDED)
def test_a_command_ends_and_prints_as_on_a_real_cluster(told: dict[str, Printed], words: str) -> None:
    assert compared(words, told[words]) == compared(words, RECORDED[words]), told[words].text
