"""docs/howto/from-apache.md: its commands, typed in order, on a store of ours and on one of Apache's."""

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from harness.missing import unavailable
from harness.servers import start_apache
from harness.toolchains import Unavailable
from howto import BIN, Block, blocks
from typed_page import TypedPage, typed_page

from pyromq import Admin, Message, Producer, PullConsumer, PullStatus
from pyromq.testing.waiting import eventually

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "from-apache.md"
PORTS = (9876, 10911)
COUNT = 40

pytestmark = pytest.mark.timeout(600)


def block(when: str) -> Block:
    """Return the commands that are typed at one time."""
    (found,) = [one for one in blocks(PAGE) if one.when == when]
    return found


@pytest.fixture
def page(tmp_path: Path) -> Iterator[TypedPage]:
    with typed_page(tmp_path, PORTS) as page:
        page.type(
            "pyromq namesrv -p 9876 --data names --ready-file names.json > names.log 2>&1 & "
            "echo $! > names.pid; until [ -e names.json ]; do sleep 0.1; done"
        )
        page.type(block("file"))
        yield page


@contextmanager
def broker_before(page: TypedPage) -> Iterator[None]:
    """Run a broker with the page's file, in the place of Apache's, and stop it in order."""
    with (page.folder / "before.log").open("w") as log:
        started = subprocess.Popen(
            [BIN / "pyromq", "broker", "-c", "broker.conf", "--ready-file", "before.json"],
            cwd=page.folder,
            stdout=log,
            stderr=log,
        )
        try:
            eventually((page.folder / "before.json").exists, 60, what="the broker before is there")
            yield
        finally:
            started.send_signal(signal.SIGTERM)
            assert started.wait(60) == 0


def fill(page: TypedPage, name_server: str) -> None:
    """Send messages, and let a group have read half of each queue."""
    with Admin(name_server) as admin, Producer("clerks", name_server) as producer:
        admin.create_topic("orders", 4)
        page.type(f"pyromq group create billing -n {name_server}")
        for at in range(COUNT):
            producer.send(
                Message("orders", b"%d" % at), selector=lambda queues, _message, at=at: queues[at % 4]
            )
    with PullConsumer("billing", name_server) as reader:
        for queue in reader.queues("orders"):
            reader.commit(queue, reader.max_offset(queue) // 2)


def state(name_server: str) -> tuple[list[bytes], set[int | None]]:
    """Return all messages, and how far the group is in its queues."""
    found, reached = [], set()
    with PullConsumer("billing", name_server) as reader:
        for queue in reader.queues("orders"):
            reached.add(reader.committed(queue))
            offset = reader.min_offset(queue)
            while (pulled := reader.pull(queue, offset)).status is PullStatus.FOUND:
                found += [one.body for one in pulled.messages]
                offset = pulled.next_offset
    return sorted(found), reached


def moved(page: TypedPage, name_server: str) -> None:
    """Type the move, and look that nothing is missing; then the way back."""
    page.type(block("ours"))
    assert state(name_server) == (sorted(b"%d" % at for at in range(COUNT)), {COUNT // 8})
    shown = page.type(block("after"))
    assert "broker-a" in shown
    assert "SEND_OK" in shown
    before, after = (
        [json.loads(line)["lag"] for line in (page.folder / f"lag-{when}.txt").read_text().splitlines()]
        for when in ("before", "after")
    )
    assert sum(before) == COUNT // 2
    assert before == after
    for when in ("before", "after"):
        assert "orders" in (page.folder / f"topics-{when}.txt").read_text()
        assert "(spares)" in (page.folder / f"{when}.txt").read_text()
    page.type(block("back"))


@pytest.mark.row("ST-05")
def test_the_page_moves_a_broker_with_its_messages_and_its_groups(page: TypedPage) -> None:
    name_server = page.told("127.0.0.1:9876")
    with broker_before(page):
        fill(page, name_server)
        page.type(block("before"))

    moved(page, name_server)


def test_what_the_page_shows_of_a_file_is_what_the_command_says(page: TypedPage) -> None:
    said = page.type(block("check"))

    shown = re.search(r"what it prints -->\n\n((?:    .*\n)+)", PAGE.read_text())
    assert shown is not None
    wanted = [line.removeprefix("    ") for line in shown[1].splitlines()]
    assert [re.sub(r"=/\S+", "=…", line) for line in said.splitlines()] == wanted


@pytest.mark.parametrize(
    ("line", "said", "status"),
    [
        ("enableDLegerCommitLog=true", "cannot be true here", 2),
        ("flushDiskTyp=SYNC_FLUSH", "is not a known setting; did you mean flushDiskType?", 2),
        ("maxHaTransferByteInSecond=1000", "has no effect (limits)", 1),
        ("enabledAppendPropCRC=true", "has no effect (durability)", 1),
        ("authConfigPath=/etc/auth", "has no effect (security)", 1),
        ("sendMessageThreadPoolNums=64", "has no effect:", 0),
    ],
)
def test_each_answer_of_the_table_comes_with_its_status(
    tmp_path: Path, line: str, said: str, status: int
) -> None:
    (tmp_path / "broker.conf").write_text(line + "\n")

    done = subprocess.run(
        [BIN / "pyromq", "broker", "--check", "-c", "broker.conf"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    told = done.stdout + done.stderr
    assert said in told
    assert done.returncode == status, told


@pytest.mark.interop
@pytest.mark.long
def test_the_page_moves_a_broker_of_apaches_that_was_killed(page: TypedPage) -> None:
    name_server = page.told("127.0.0.1:9876")
    apaches = page.folder / "apache"
    with ExitStack() as closing:
        try:
            apache = start_apache("apache-4.9", apaches, closing)
        except Unavailable as reason:
            unavailable(reason)
        fill(page, apache.name_server)
        page.type(block("before").text.replace("127.0.0.1:9876", apache.name_server))
        # Apache writes progress every five seconds; what it did not write its own broker would not know.
        eventually(
            lambda: any(
                "orders@billing" in file.read_text() for file in apaches.rglob("consumerOffset.json")
            ),
            60,
            what="progress is written",
        )
        (file,) = apaches.glob("broker-a*.conf")
        shutil.copy(file, page.folder / "broker.conf")
    text = (page.folder / "broker.conf").read_text()
    (page.folder / "broker.conf").write_text(re.sub("namesrvAddr *=.*", f"namesrvAddr={name_server}", text))
    (log,) = apaches.rglob("commitlog")
    (page.folder / "store").symlink_to(log.parent)

    moved(page, name_server)
