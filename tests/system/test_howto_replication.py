"""docs/howto/replication.md: its commands, typed in order, on ports of the test's own."""

from pathlib import Path

import pytest
from howto import blocks
from typed_page import TypedPage, typed_page

from pyromq.testing.waiting import eventually

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "replication.md"
PORTS = (9876, 10911, 10921)
DEADLINE_S = 60

pytestmark = pytest.mark.timeout(900)


def has_said(page: TypedPage, words: str) -> bool:
    """Return whether the slave's log has these words."""
    return words in (page.folder / "slave.log").read_text()


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the commands of the page print."""
    texts = []
    with typed_page(tmp_path_factory.mktemp("replication"), PORTS) as page:
        page.export("NAMESRV_ADDR", "127.0.0.1:9876")
        for block in blocks(PAGE):
            if block.when == "followed":
                eventually(lambda: has_said(page, "this slave follows"), DEADLINE_S, what="the slave follows")
            if block.when == "copied":
                # A topic that is made by its first message reaches the slave's table within ten seconds.
                eventually(
                    lambda: "orders" in topics_of_the_slave(page), DEADLINE_S, what="the slave has the topic"
                )
            texts.append(page.type(block))
    return "\n".join(texts)


def topics_of_the_slave(page: TypedPage) -> str:
    """Return the slave's table of topics."""
    tables = list(page.folder.glob("slave/**/topics.json"))
    return tables[0].read_text() if tables else ""


@pytest.mark.row("HA-02")
def test_the_slave_of_the_page_makes_a_send_safe(printed: str) -> None:
    assert "SEND_OK  orders" in printed


@pytest.mark.row("HA-07")
def test_the_slave_of_the_page_is_read_from_when_the_master_is_killed(printed: str) -> None:
    assert "one" in printed.splitlines()
