"""What mqadmin prints on a real cluster is still what was recorded, by its shape."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from harness.missing import unavailable
from harness.mqadmin import Mqadmin, Printed
from harness.mqadmin_story import compared, read_record, tell, tell_access, write_accounts
from harness.servers import start_apache
from harness.toolchains import Unavailable

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

RECORDS = Path(__file__).parent / "recorded"
RECORDED = read_record(RECORDS / "mqadmin_4.9.json")
ACCESS = read_record(RECORDS / "mqadmin_access_4.9.json")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Printed]:
    folder = tmp_path_factory.mktemp("apache")
    try:
        with ExitStack() as closing:
            apache = start_apache("apache-4.9", folder, closing, traceTopicEnable="true")
            return tell(apache, closing.enter_context(Mqadmin(folder)), folder)
    except Unavailable as error:
        unavailable(error)


@pytest.mark.parametrize("words", RECORDED)
def test_a_real_cluster_prints_what_was_recorded(told: dict[str, Printed], words: str) -> None:
    assert compared(words, told[words]) == compared(words, RECORDED[words]), told[words].text


@pytest.fixture(scope="module")
def told_with_access(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Printed]:
    folder = tmp_path_factory.mktemp("apache")
    write_accounts(folder)
    try:
        with ExitStack() as closing:
            apache = start_apache("apache-4.9", folder, closing, aclEnable="true")
            return tell_access(apache, closing.enter_context(Mqadmin(folder)))
    except Unavailable as error:
        unavailable(error)


@pytest.mark.parametrize("words", ACCESS)
def test_a_real_cluster_with_access_control_prints_what_was_recorded(
    told_with_access: dict[str, Printed], words: str
) -> None:
    assert compared(words, told_with_access[words]) == compared(words, ACCESS[words])
