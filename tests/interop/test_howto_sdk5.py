"""docs/howto/sdk-5.md: its commands and its five programs, as they stand there."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from harness.missing import unavailable
from harness.sdk5.doors import Door, open_ours
from harness.sdk5.sdk_toolchains import FIRST
from harness.toolchains import Unavailable
from howto import Block, Reader, blocks
from page_blocks import page_blocks

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "sdk-5.md"
PROGRAMS = {block.when: block.text for block in page_blocks(PAGE) if block.when.startswith("SDK for ")}
#: Its crates take minutes to compile.
FILES = {"Java": "First.java", "Go": "first.go", "Python": "first.py", "Node": "first.js", "Rust": "first.rs"}
NAMES = [pytest.param(name, marks=pytest.mark.long) if name == "Rust" else name for name in FILES]
#: Seconds that a program may take; spent only when a test fails.
PATIENCE_S = 120


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with ExitStack() as closing:
        door = open_ours(tmp_path_factory.mktemp("door"), closing)
        door.create_topic("orders")
        yield door


@pytest.mark.row("GR-34")
@pytest.mark.parametrize("name", NAMES)
def test_the_first_program_sends_and_receives(door: Door, name: str, tmp_path: Path) -> None:
    folder = tmp_path / f"first_{name}"
    folder.mkdir()
    source = folder / FILES[name]
    source.write_text(PROGRAMS[f"SDK for {name}"].replace("127.0.0.1:8081", door.endpoint))
    try:
        command = FIRST[source.name](source)
    except Unavailable as error:
        unavailable(error)

    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    # Each has a group of its own, which begins with what the others sent before.
    assert f"received from {name}" in done.stdout.splitlines(), done.stdout + done.stderr[-4000:]


def test_the_commands_of_the_page_create_topics_and_a_group(tmp_path: Path) -> None:
    found = {block.when: block for block in blocks(PAGE) if block.language == "sh"}
    assert set(found) == {"background", "topic", "kinds", "group"}
    reader = Reader(tmp_path)
    try:
        for when in ("topic", "kinds", "group"):
            reader.type(found[when])
        shown = reader.type(Block("", "sh", "pyromq topic list; pyromq group show billing"))
    finally:
        reader.close()

    assert {"orders", "in-order", "later", "paid"} <= set(shown.split())
