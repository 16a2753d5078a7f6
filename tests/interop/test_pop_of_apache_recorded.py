"""Apache's 5.5.0 answers POP by hand as `golden/pop_5.5.0.json` says; PYROMQ_RECORD=1 writes it."""

import asyncio
import os
from contextlib import ExitStack
from pathlib import Path

import pytest
from harness import servers
from harness.missing import unavailable
from harness.toolchains import Unavailable
from pop_questions import read_told, tell_pops, write_told

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600), pytest.mark.row("PO-21")]

GOLDEN = Path(__file__).parents[1] / "conformance" / "golden" / "pop_5.5.0.json"


def test_apache_answers_as_recorded(tmp_path: Path) -> None:
    with ExitStack() as closing:
        try:
            cluster = servers.start_apache_5_timers(tmp_path, closing)
        except Unavailable as error:
            unavailable(error)
        (broker,) = cluster.brokers.values()
        told = asyncio.run(tell_pops(broker))

    if os.environ.get("PYROMQ_RECORD"):
        write_told(told, GOLDEN)
    assert told == read_told(GOLDEN)
