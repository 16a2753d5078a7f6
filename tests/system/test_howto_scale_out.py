"""docs/howto/scale-out.md: its commands, typed in order, on ports of the test's own."""

import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from howto import BIN, Block, Reader, blocks

from pyromq.testing.waiting import eventually

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "scale-out.md"
DEADLINE_S = 60


@pytest.mark.row("AD-07", "AD-08")
def test_the_commands_of_the_page_add_a_broker_and_take_it_away(tmp_path: Path) -> None:
    up, first, start, second, drain = blocks(PAGE)
    assert [block.when for block in (up, start, drain)] == ["background", "new broker", "drained"]
    reader = Reader(tmp_path)
    try:
        before = reader.type(first)
        with broker_of(start, reader.name_server, tmp_path):
            after = reader.type(second)
            reader.type(Block("", "sh", "pyromq consume orders --group billing --body-only"))
            drained = reader.type(Block("", "sh", f"{drain.text.strip()} --settle 0"))
        left = reader.type(Block("", "sh", "pyromq produce orders 1 2 3 4 5 6 7 8"))
    finally:
        reader.close()

    assert "one\n" in before
    assert "broker-b" not in before
    assert "→ broker-a" in after
    assert "→ broker-b" in after
    assert "broker-b may be stopped" in drained
    assert left.count("→ broker-a") == 8


@contextmanager
def broker_of(block: Block, name_server: str, folder: Path) -> Iterator[None]:
    """Run the broker of the page, on a free port."""
    words = shlex.split(block.text.replace("127.0.0.1:9876", name_server))[1:]
    words[words.index("--port") + 1] = "0"
    ready = folder / "broker.ready"
    output = folder / "broker.out"
    with output.open("w") as file:
        process = subprocess.Popen(
            [BIN / "pyromq", *words, "--data", folder / "b", "--ready-file", ready], stderr=file, stdout=file
        )
    try:
        eventually(
            lambda: ready.exists() or process.poll() is not None, DEADLINE_S, what="the broker is ready"
        )
        assert ready.exists(), output.read_text()
        yield
    finally:
        process.terminate()
        assert process.wait(DEADLINE_S) == 0, output.read_text()
