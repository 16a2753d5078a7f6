"""A server's process has the server in it, and not the command line that typer would read."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from pyromq.cli.command_table import COMMANDS
from pyromq.cli.plain_parser import read_plainly
from pyromq.cli.servers.server_options import BrokerOptions, NamesrvOptions, UpOptions
from pyromq.cli.typer_program import typer_command

PYROMQ = Path(sys.executable).with_name("pyromq")
#: Packages that a server does without until somebody asks for what they do.
UNWANTED = {"typer", "click", "rich", "pydantic", "yaml", "starlette", "uvicorn", "pyspark", "http.server"}
#: What serves gRPC, which the first connection imports.
OF_GRPC = {"google.protobuf", "h2", "cryptography", "pyromq.broker.grpc.grpc_door", "pyromq.wire.grpc"}
#: Imported by Python before the program: writes the names of all modules when the process ends.
WITNESS = """
import atexit, os, pathlib, sys
folder = pathlib.Path(__file__).parent
atexit.register(lambda: (folder / str(os.getpid())).write_text(" ".join(sys.modules)))
"""


class Imports:
    """Runs the program, and knows which modules and packages it imported."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "sitecustomize.py").write_text(WITNESS)

    def of(self, program: Sequence[str | Path], *arguments: str, serves: bool = False) -> set[str]:
        """Run a command to its end; one that serves is ended when it is ready."""
        process = subprocess.Popen(
            [*program, *arguments],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(self._folder)},
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            if serves:
                process.terminate()
            process.communicate(timeout=60)
        finally:
            process.kill()
        names = set((self._folder / str(process.pid)).read_text().split())
        assert "pyromq.cli.start" in names
        return names


@pytest.fixture
def imports(tmp_path: Path) -> Imports:
    folder = tmp_path / "witness"
    folder.mkdir()
    return Imports(folder)


@pytest.fixture(params=["script", "module"])
def program(request: pytest.FixtureRequest) -> list[str | Path]:
    return [PYROMQ] if request.param == "script" else [sys.executable, "-m", "pyromq"]


@pytest.mark.parametrize(
    ("command", "server"),
    [
        (("broker", "--port", "0", "--set", "haListenPort=0"), "pyromq.broker.broker"),
        (("namesrv", "-p", "0"), "pyromq.namesrv.namesrv"),
        (("up", "--namesrv-port=0", "--broker-port=0", "--dashboard-port=0"), "pyromq.broker.broker"),
    ],
)
def test_a_server_that_runs_imported_no_command_line_nor_what_it_is_not_asked_for(
    imports: Imports, program: list[str | Path], command: tuple[str, ...], server: str, tmp_path: Path
) -> None:
    names = imports.of(program, *command, "--data", str(tmp_path), "--json", serves=True)

    assert server in names
    assert names & UNWANTED == set()


def test_a_broker_whose_grpc_port_is_open_imported_nothing_that_serves_it(
    imports: Imports, tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    words = ("broker", "--port", "0", "--set", "haListenPort=0", "--set", f"grpcServerPort={port}")
    names = imports.of([PYROMQ], *words, "--data", str(tmp_path), "--json", serves=True)

    assert "pyromq.broker.grpc.grpc_port" in names
    assert names & (UNWANTED | OF_GRPC) == set()


@pytest.mark.parametrize(
    ("words", "others"),
    [
        (("broker", "--port", "0", "--set", "haListenPort=0"), {"namesrv", "client", "dashboard"}),
        (("namesrv", "-p", "0"), {"broker", "client", "dashboard"}),
    ],
)
def test_a_server_does_without_the_others(
    imports: Imports, words: tuple[str, ...], others: set[str], tmp_path: Path
) -> None:
    names = imports.of([PYROMQ], *words, "--data", str(tmp_path), "--json", serves=True)

    assert {name for name in names if re.match(rf"pyromq\.({'|'.join(others)})\b", name)} == set()


@pytest.mark.parametrize("words", [("version",), ("--version",)])
def test_the_version_is_told_without_a_command_line_parser(imports: Imports, words: tuple[str, ...]) -> None:
    assert imports.of([PYROMQ], *words) & UNWANTED == set()


@pytest.mark.parametrize("words", [("topic", "list", "--help"), ("produce", "--help"), ("broker", "--help")])
def test_a_command_imports_no_other_commands(imports: Imports, words: tuple[str, ...]) -> None:
    modules = {each.module for each in COMMANDS}
    own = {each.module for each in COMMANDS if each.name == words[0]}

    assert (imports.of([PYROMQ], *words) & modules) - {"pyromq.cli.version"} == own


LINES = [
    (),
    ("-n", "a:9876", "--port", "0"),
    ("--namesrv=a:9876;b:9876", "--port=10911", "--listen", "::1"),
    (
        "--namesrv",
        "a=b:1",
    ),
    ("--set", "brokerName=x", "--set=brokerId=1", "--set", ""),
    ("-c", "conf/broker.conf", "--data", "~/data", "--ready-file=r"),
    ("-p", "--json", "--check", "--until-stdin-ends", "--log-level", "debug"),
    ("--port", "1", "--port", "2"),
    ("--port", "1_0", "--data", ""),
]
LEFT_TO_TYPER = [
    ("--help",),
    ("-h",),
    ("--nonsense",),
    ("word",),
    ("--",),
    ("--port",),
    ("--port", "x"),
    ("--port", "--json"),
    ("--json=1",),
    ("-pn", "a:1"),
    ("-na:1",),
    ("-n=a:1",),
    ("--log-level", "loud"),
    ("--jso",),
]


@pytest.mark.parametrize("line", LINES)
def test_both_parsers_read_the_same_options(line: tuple[str, ...]) -> None:
    seen: list[object] = []
    program = typer.Typer()
    program.command()(typer_command(seen.append, BrokerOptions))

    assert CliRunner().invoke(program, list(line)).exit_code == 0

    assert seen == [read_plainly(BrokerOptions, line)]


@pytest.mark.parametrize("line", LEFT_TO_TYPER)
def test_help_mistakes_and_rare_forms_are_left_to_typer(line: tuple[str, ...]) -> None:
    assert read_plainly(BrokerOptions, line) is None


def test_limits_of_numbers_are_kept() -> None:
    assert read_plainly(UpOptions, ["--replicas", "9"]) == UpOptions(replicas=9)
    assert read_plainly(UpOptions, ["--replicas", "0"]) is None
    assert read_plainly(UpOptions, ["--replicas", "10"]) is None


def test_a_name_servers_p_is_its_port() -> None:
    assert read_plainly(NamesrvOptions, ["-p", "9877"]) == NamesrvOptions(port=9877)


def test_settings_are_printed_without_a_server() -> None:
    ended = subprocess.run(
        [PYROMQ, "broker", "-p", "--json"], capture_output=True, text=True, check=True, timeout=60
    )

    assert json.loads(ended.stdout.splitlines()[0])["key"] == "brokerName"
