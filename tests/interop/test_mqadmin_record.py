"""What mqadmin prints on a real cluster is still what was recorded, by its shape."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from harness.missing import unavailable
from harness.mqadmin import Mqadmin, Printed
from harness.mqadmin_story import compared, read_record, tell
from harness.servers import start_apache
from harness.toolchains import Unavailable

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

RECORDED = read_record(Path(__file__).parent / "recorded" / "mqadmin_4.9.json")


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
