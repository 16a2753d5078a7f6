"""Every command of Apache's mqadmin 4.9.8 on our cluster prints what it prints on a real one.

`recorded/mqadmin_4.9.json` is what it printed there; `test_mqadmin_record.py` looks whether it still does.
"""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from harness.missing import unavailable
from harness.mqadmin import Mqadmin, Printed
from harness.mqadmin_story import ACCESS, FIRST, STEPS, Compared, compared, read_record, tell
from harness.servers import start_ours
from harness.toolchains import Unavailable

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
RECORDED = read_record(Path(__file__).parent / "recorded" / "mqadmin_4.9.json")
#: Where what is printed depends on more than the moment.
LOOSE = (Compared.SETTINGS, Compared.HEADING, Compared.FAILURE)
PAGE = (ROOT / "docs/reference/mqadmin.md").read_text()


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


@pytest.fixture(scope="module")
def listed(mqadmin: Mqadmin) -> list[str]:
    """The commands that mqadmin itself lists, by the code in its jar."""
    return [line.split()[0] for line in mqadmin.run().text.splitlines() if line.startswith("   ")]


def test_the_story_has_every_command(listed: list[str]) -> None:
    assert {step.command for step in (*FIRST, *STEPS)} == set(listed)
    assert len(listed) == len(set(listed)) == 56


def test_the_page_lists_every_command_once(listed: list[str]) -> None:
    table = re.findall(
        r"^\| [a-z ]+ \| ([\w, ]+) \|$", PAGE.partition("## What does not apply")[0], re.MULTILINE
    )
    assert sorted(name for row in table[1:] for name in row.split(", ")) == sorted(listed)


def test_the_page_says_why_where_not_all_is_compared(listed: list[str]) -> None:
    reasons = PAGE.partition("## What does not apply")[2]
    loosely = {step.command for step in (*FIRST, *STEPS, *ACCESS) if step.compared in LOOSE}
    assert {name for name in loosely if f"`{name}" not in reasons} == set()


def test_our_own_commands_were_made_from_this_list(listed: list[str]) -> None:
    options = json.loads((ROOT / "tests/golden/mqadmin-4.9.8-options.json").read_text())
    assert set(options) == set(listed)


def test_the_record_has_the_whole_story(told: dict[str, Printed]) -> None:
    assert list(told) == list(RECORDED)


@pytest.mark.parametrize("words", RECORDED)
def test_a_command_ends_and_prints_as_on_a_real_cluster(told: dict[str, Printed], words: str) -> None:
    assert compared(words, told[words]) == compared(words, RECORDED[words]), told[words].text
