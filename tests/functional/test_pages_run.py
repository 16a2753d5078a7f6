"""Programs of the documentation, run beside a broker: those that need nothing of the reader's own."""

import ast
import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path

import page_python
import pytest
from page_blocks import PageBlock, page_blocks
from push_stage import QUICK

import pyromq
from pyromq import Message
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import eventually

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs/howto").glob("*.md"))]
#: The address in the pages.
SHOWN = "127.0.0.1:9876"


def is_whole(block: PageBlock) -> bool:
    return (
        block.kind == "python"
        and SHOWN in block.text
        and "…" not in block.text
        and "# before" not in block.text
        # Spark's are typed by `test_howto_spark.py`.
        and "spark" not in block.text
        and page_python.faults_of(block.text, frozenset()) == []
    )


WHOLE = [block for page in PAGES for block in page_blocks(page) if is_whole(block)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    """A broker with the topics and the group that pages speak of; the group has a dead letter."""
    with running_cluster(default_topic_queue_nums=4, enable_property_filter=True) as running:
        server = running.namesrv_address
        with pyromq.Producer("shop", server) as producer:
            for number in range(8):
                producer.send(Message("orders", b"%d" % number, tags="paid", keys=[f"o-{40 + number}"]))
        consumer = pyromq.PushConsumer(
            "billing", server, listener=lambda _message: False, max_reconsume_times=0, **QUICK
        )
        consumer.subscribe("orders")
        with consumer, pyromq.DeadLetters(server) as letters:
            eventually(lambda: list(letters.read("billing")), what="dead letters")
        yield running


def test_there_are_programs_that_run() -> None:
    assert {"README.md", "delay.md", "dead-letters.md", "offsets.md"} <= {block.page.name for block in WHOLE}


@pytest.mark.parametrize("block", WHOLE, ids=lambda block: block.place)
def test_a_program_of_a_page_runs_as_it_stands(
    block: PageBlock, cluster: ThreadCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("builtins.input", lambda _prompt="": "")
    text = block.text.replace(SHOWN, cluster.namesrv_address).replace("/var/lib/billing", str(tmp_path))
    code = compile(text, block.place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    result = eval(code, {"__name__": "page"})  # the project's own pages, as a reader runs them

    if inspect.iscoroutine(result):
        asyncio.run(result)
