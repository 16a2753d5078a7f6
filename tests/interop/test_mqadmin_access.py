"""The commands of mqadmin about access control, on brokers that have it."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from harness.missing import unavailable
from harness.mqadmin import Mqadmin, Printed
from harness.mqadmin_story import compared, read_record, tell_access, write_accounts
from harness.servers import start_ours
from harness.toolchains import Unavailable

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

RECORDED = read_record(Path(__file__).parent / "recorded" / "mqadmin_access_4.9.json")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Printed]:
    folder = tmp_path_factory.mktemp("access")
    conf = write_accounts(folder)
    try:
        with ExitStack() as closing:
            ours = start_ours(folder, closing, aclEnable="true", aclFolder=str(conf))
            return tell_access(ours, closing.enter_context(Mqadmin(folder)))
    except Unavailable as error:
        unavailable(error)


@pytest.mark.parametrize("words", RECORDED)
def test_a_command_about_access_ends_and_prints_as_on_a_real_cluster(
    told: dict[str, Printed], words: str
) -> None:
    assert compared(words, told[words]) == compared(words, RECORDED[words]), told[words].text
