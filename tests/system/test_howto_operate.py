"""docs/howto/operate.md: its commands, typed in order, print what it says, on ports of the test's own."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import typer
from etcd import EtcdServer, running_etcd
from howto import blocks
from typed_page import TypedPage, typed_page

from pyromq import Admin, PullConsumer
from pyromq.cli.main import app
from pyromq.testing.waiting import eventually

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "operate.md"
PORTS = (9876, 10911, 10921, 9976, 10991)
DEADLINE_S = 60
LOST = "failover lost"

pytestmark = pytest.mark.timeout(900)

#: A block of commands, and the indented lines behind it, which are what they print.
_SHOWN = re.compile(r"^```sh\n((?:(?!^```).*\n)*)^```\n\n((?:(?:    .*)?\n)+)", re.MULTILINE)
_INLINE = re.compile(r"`(pyromq [^`]+)`")
_INDENTED = re.compile(r"^    (pyromq .+)$", re.MULTILINE)
#: What is another one each time: ids, numbers, folders, and how bad it is by now that a listener hangs.
_PASSING = re.compile(
    r"(?<!\S)/\S*/(?=\w+/broker-a)|[0-9A-F]{32}|\d+(?:[.,]\d+)*"
    r"|✗ problem|! warning|(?<=\d) (?:seconds|minutes?)"
)

_HANGING = """
import sys, threading
from pyromq import PushConsumer

def listener(message):
    print("called", flush=True)
    threading.Event().wait()

with PushConsumer("billing", sys.argv[1], listener=listener) as consumer:
    consumer.subscribe("orders")
    threading.Event().wait()
"""

_ETCDCTL = """#!{python}
# What the page asks of etcdctl, for machines where only the server is installed.
import base64, json, sys, urllib.request
_, endpoint, _, _, prefix = sys.argv[1:]
end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
key, end = (base64.b64encode(text.encode()).decode() for text in (prefix, end))
request = urllib.request.Request(
    f"http://{{endpoint}}/v3/kv/deleterange", json.dumps({{"key": key, "range_end": end}}).encode()
)
print(json.load(urllib.request.urlopen(request)).get("deleted", "0"))
"""


@contextmanager
def hanging_member(name_server: str, folder: Path) -> Iterator[None]:
    """Run a member of the group `billing`, which has progress, and whose listener never returns."""
    with PullConsumer("billing", name_server) as before:
        for queue in before.queues("orders"):
            before.commit(queue, 0)
    program, output = folder / "member.py", folder / "member.out"
    program.write_text(_HANGING)
    with output.open("w") as out:
        member = subprocess.Popen([sys.executable, program, name_server], stdout=out, stderr=out)
    try:
        eventually(lambda: "called" in output.read_text(), DEADLINE_S, what="the listener is called")
        yield
    finally:
        member.kill()
        member.wait(DEADLINE_S)


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each block of the page prints, but the one about failover."""
    told: dict[str, str] = {}
    folder = tmp_path_factory.mktemp("operate")
    with typed_page(folder, PORTS) as page:
        page.export("NAMESRV_ADDR", "127.0.0.1:9876")
        with ExitStack() as members:
            for block in blocks(PAGE):
                if block.when == "a member begins to hang":
                    members.enter_context(hanging_member(page.told("127.0.0.1:9876"), folder))
                if block.when == "the member is gone":
                    members.close()
                if block.when != LOST:
                    told[block.text] = page.type(block)
    return told


def as_pattern(line: str) -> re.Pattern[str]:
    """Return what a line of the page stands for: `…` is anything, numbers and ids are any."""
    parts = [re.escape(_PASSING.sub("#", part)) for part in re.sub(r"\s+", " ", line.strip()).split("…")]
    return re.compile(".*".join(parts))


def missing_lines(shown: str, output: str) -> list[str]:
    """Return the lines that the page shows and that were not printed; where lines end depends on ids."""
    printed = _PASSING.sub("#", re.sub(r"\s+", " ", output))
    return [line for line in shown.splitlines() if line.strip() and not as_pattern(line).search(printed)]


def test_the_commands_print_what_the_page_shows(printed: dict[str, str]) -> None:
    shown = {text: lines for text, lines in _SHOWN.findall(PAGE.read_text()) if text in printed}

    assert len(shown) > 8
    assert {
        text: left for text, lines in shown.items() if (left := missing_lines(lines, printed[text]))
    } == {}


def test_a_rebuilt_master_has_every_message(printed: dict[str, str]) -> None:
    (rebuilt,) = [output for text, output in printed.items() if "store backup slave master" in text]

    bodies = ["one", "two", "three", "four", "five", "on one machine", "again"]
    assert sorted(rebuilt.splitlines()[-7:]) == sorted(bodies)


def test_a_replica_from_a_backup_is_master_only_when_somebody_says_that_the_others_are_lost(
    tmp_path: Path,
) -> None:
    with running_etcd(tmp_path / "etcd") as etcd, typed_page(tmp_path, (9876, 10931, 2379)) as page:
        (lost,) = [block.text for block in blocks(PAGE) if block.when == LOST]
        page.export("NAMESRV_ADDR", "127.0.0.1:9876")
        give_etcdctl(page, etcd)
        page.type(blocks(PAGE)[0].text.partition("cat > master.sh")[0])
        page.type("bash -eu start.sh names namesrv -p 9876")
        node = start_node(etcd)
        page.type(node)
        eventually(lambda: leads(page), DEADLINE_S, what="it is master")
        page.type('pyromq produce orders "before"; pyromq store backup node backup/broker-f')
        page.type("kill -9 $(cat node.pid); rm -r node; mkdir node; cp -a backup/broker-f node/broker-f")
        page.type(node)
        eventually(lambda: "nobody is master" in log_of(page), DEADLINE_S, what="it waits for the others")

        said = page.type(lost.replace("127.0.0.1:2379", f"127.0.0.1:{etcd.port}"))

        eventually(lambda: leads(page), DEADLINE_S, what="it is master again")
        read = page.type("pyromq consume orders --body-only")
        page.type("bash -eu stop.sh node; bash -eu stop.sh names")
    (shown,) = [lines for text, lines in _SHOWN.findall(PAGE.read_text()) if text == lost]
    assert missing_lines(shown, said) == []
    assert read == "before\n"


def start_node(etcd: EtcdServer) -> str:
    """Return the command that starts the only replica of the group."""
    return (
        "bash -eu start.sh node broker -n 127.0.0.1:9876 --port 10931 "
        f"--set brokerName=broker-f --failover {etcd.address}"
    )


def give_etcdctl(page: TypedPage, etcd: EtcdServer) -> None:
    """Put an etcdctl on the page's path, if the machine has none."""
    if shutil.which("etcdctl") is None:
        folder = page.folder / "bin"
        folder.mkdir()
        (folder / "etcdctl").write_text(_ETCDCTL.format(python=sys.executable))
        (folder / "etcdctl").chmod(0o755)
        page.put_on_path(folder)


def log_of(page: TypedPage) -> str:
    return (page.folder / "node.log").read_text()


def leads(page: TypedPage) -> bool:
    """Whether the replica is master, and the name server knows it, which comes later."""
    if "this replica is master now" not in log_of(page):
        return False
    with Admin(page.told("127.0.0.1:9876")) as admin:
        return any(0 in one.broker_addrs for one in admin.cluster().broker_addr_table.values())


def named_commands() -> list[str]:
    """Return every command that the page names anywhere, each once."""
    text = re.sub(r"```.*?```", "", PAGE.read_text(), flags=re.DOTALL)
    found = [*_INLINE.findall(text), *_INDENTED.findall(text)]
    lines = [line for block in blocks(PAGE) for line in block.text.splitlines()]
    typed = [line for line in lines if re.match(r"pyromq \w", line)]
    return sorted({" ".join(command.split()) for command in (*found, *typed)})


@pytest.mark.parametrize("command", named_commands())
def test_a_command_that_the_page_names_exists_with_its_options(command: str) -> None:
    words = shlex.split(re.split(r" (?:\|\||#|…)", command)[0])[1:]
    found = typer.main.get_command(app)
    while words and isinstance(found, typer.core.TyperGroup):
        assert words[0] in found.commands, command
        found = found.commands[words.pop(0)]

    known = {name for parameter in found.params for name in (*parameter.opts, *parameter.secondary_opts)}
    options = {word for word in words if re.match(r"--?[a-zA-Z]", word)}
    assert options <= known | {"-h", "--help"}
