"""Every block of every page is run by a test, or compared with the program that it tells of."""

import ast
import json
import re
import tempfile
from difflib import unified_diff
from pathlib import Path

import page_python
import page_shell
import pytest
import yaml
from page_blocks import PageBlock, page_blocks
from printed_words import unknown_words

from pyromq.broker.access.account_files import read_file as read_access_file
from pyromq.config.load import load, read_file
from pyromq.config.settings import BrokerProcess

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
BLOCKS = [block for page in PAGES for block in page_blocks(page)]
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\s+(?:do:  )?(pyromq [a-z][^\n]*)$", re.MULTILINE)
NUMBER = re.compile(r" (?:N|OFFSET)\b")
INLINE = re.compile(r"`(pyromq [^`]+)`")
#: Blocks that nobody runs or compares. The number is here so that it does not grow by itself.
NOT_RUN_MAX = 4
#: Names in programs that stand for what the reader has: a session of Spark, a database, functions of theirs.
READERS = {
    *("spark", "frame", "ns", "orders", "totals", "window", "asyncio", "time", "timedelta"),
    *("psycopg", "redis", "connect", "connection", "database", "guard", "redis"),
    *(
        "handle",
        "bill",
        "is_there",
        "report",
        "callback",
        "stopped",
        "reply_to",
        "Once",
        "DbTokens",
        "RedisTokens",
    ),
    *("message", "arg", "queue", "offset", "consumer", "producer", "relay", "query"),
}


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_a_block_is_true(block: PageBlock) -> None:
    if block.reason:
        return
    assert CHECKS[block.kind](block) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_that_a_page_names_in_its_sentences_are_there(page: Path) -> None:
    sentences = FENCED.sub("", page.read_text())
    named = {" ".join(one.split()) for one in INLINE.findall(sentences) if "…" not in one}
    faults = [fault for one in sorted(named) for fault in page_shell.faults_of(NUMBER.sub(" 2", one))]
    # Who only names a command need not say what it is for.
    assert [fault for fault in faults if "Missing" not in fault and "'COMMAND'" not in fault] == []


def test_few_blocks_are_left_out_and_each_says_why() -> None:
    left_out = [block for block in BLOCKS if block.reason or block.when.startswith("no,")]
    assert all(len((block.reason or block.when).split()) >= 2 for block in left_out)
    assert len([block for block in left_out if block.reason]) <= NOT_RUN_MAX


def test_the_pages_whose_blocks_say_when_they_run_have_a_test_that_types_them() -> None:
    typed = {block.page.name for block in BLOCKS if block.when}
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_howto*.py"))
    assert typed
    assert [name for name in sorted(typed) if name not in tests] == []


def shell(block: PageBlock) -> list[str]:
    return page_shell.faults_of(block.text)


def python(block: PageBlock) -> list[str]:
    text = block.text
    if "# before" in text and "# now" in text:
        # The first half is for another library.
        text = text[text.index("\n\n") :]
    return page_python.faults_of(text, READERS | _made_before(block))


def _made_before(block: PageBlock) -> set[str]:
    made: set[str] = set()
    for other in BLOCKS:
        if other.page == block.page and other.line < block.line and other.kind == "python":
            made |= page_python.names_made(ast.parse(other.text.replace("…", "...")))
    return made


def settings(block: PageBlock) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "broker.conf"
        path.write_text(block.text.replace("…", "secret-7"))
        load(BrokerProcess, read_file(path))
    return []


def as_yaml(block: PageBlock) -> list[str]:
    read = yaml.safe_load(block.text)
    assert isinstance(read, dict)
    keys = set(read)
    if "accounts" in keys:
        return _access_faults(block)
    if "sinks" in keys:
        return _pipeline_faults(block)
    return [] if keys == {"scrape_configs"} else [f"whose keys are these? {sorted(keys)}"]


def _access_faults(block: PageBlock) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plain_acl.yml"
        path.write_text(block.text)
        return [] if read_access_file(path).accounts else ["it has no account"]


def _pipeline_faults(block: PageBlock) -> list[str]:
    """The page shows the file that `pyromq pipeline init` writes."""
    written = (ROOT / "src/pyspark_rocketmq/pipelines/templates/pipeline.yml").read_text()
    return list(unified_diff(written.splitlines(), block.text.splitlines(), lineterm=""))


def as_json(block: PageBlock) -> list[str]:
    said = set(json.loads(block.text))
    return sorted(said - {"event", "version", "speed", "pid", "namesrv", "broker", "data", "dashboard"})


def output(block: PageBlock) -> list[str]:
    if block.when:
        # The test of the page compares it with what the command prints.
        return []
    if " do:  " not in block.text:
        return unknown_words(block.text)
    # The doctor's next steps are words and commands.
    commands = "\n".join(COMMAND.findall(block.text)).replace("…", "")
    return [*unknown_words(COMMAND.sub("", block.text)), *page_shell.faults_of(commands)]


def foreign(block: PageBlock) -> list[str]:
    return [] if block.when else ["no test runs it"]


CHECKS = {
    "shell": shell,
    "python": python,
    "settings": settings,
    "yaml": as_yaml,
    "json": as_json,
    "output": output,
    "foreign": foreign,
}
