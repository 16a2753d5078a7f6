"""Apache's 5.5.0 answers POP by hand as `golden/` says; PYROMQ_RECORD=1 writes it."""

import asyncio
import os
from contextlib import ExitStack
from pathlib import Path

import pytest
from harness import servers
from harness.missing import unavailable
from harness.toolchains import Unavailable
from pop_questions import read_told, tell_pops, write_told
from share_questions import tell_shares

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600), pytest.mark.row("PO-21")]

GOLDEN = Path(__file__).parents[1] / "conformance" / "golden"
STORIES = {"pop_5.5.0.json": tell_pops, "shares_5.5.0.json": tell_shares}


def test_apache_answers_as_recorded(tmp_path: Path) -> None:
    with ExitStack() as closing:
        try:
            cluster = servers.start_apache_5_timers(tmp_path, closing)
        except Unavailable as error:
            unavailable(error)
        (broker,) = cluster.brokers.values()
        told = {name: asyncio.run(tell(broker)) for name, tell in STORIES.items()}

    for name, answers in told.items():
        if os.environ.get("PYROMQ_RECORD"):
            write_told(answers, GOLDEN / name)
        assert answers == read_told(GOLDEN / name)
