import json
import re
import shlex
import signal
import socket
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq.testing.waiting import eventually

DEADLINE_S = 60.0
# The fixtures `shell` and `up` are in conftest.py, and so are their types.
Up = Callable[..., Any]


def bodies(output: str) -> list[str]:
    return [json.loads(line)["body"] for line in output.splitlines()]


def test_a_first_message_goes_in_and_comes_out(shell: Any, up: Up) -> None:
    address = up().ready()["namesrv"]

    sent = shell.output_of("produce", "-n", address, "hello", "Hello, world")
    read = shell.output_of("consume", "-n", address, "hello", "--body-only")

    assert sent.startswith("SEND_OK")
    assert read == "Hello, world\n"


def test_the_commands_of_the_start_up_screen_work_as_they_are_printed(shell: Any, up: Up) -> None:
    server = up()
    server.ready()
    commands = [line[line.index("pyromq ") :] for line in server.out.splitlines() if " pyromq " in line]
    produce, consume = (shlex.split(command)[1:] for command in commands)

    shell.output_of(*produce)

    assert "Hello, world" in shell.output_of(*consume)


def test_the_screen_says_where_metrics_are_and_how_to_get_the_dashboard(shell: Any, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['starlette'] = None\n")
    shell.environment |= {"PYTHONPATH": str(tmp_path)}
    metrics = ("--set", "metricsExporterType=PROM", "--set", "metricsPromExporterPort=0")
    server = shell.start(
        *("up", "--namesrv-port", "0", "--broker-port", "0", "--data", str(tmp_path / "data")), *metrics
    )

    eventually(lambda: "Ctrl-C stops it" in server.out, DEADLINE_S, what="the screen")

    assert "look at it    on a web page, after: pip install 'pyromq[dashboard]'" in server.out
    (url,) = re.findall(r"  metrics       (http://127.0.0.1:\d+/metrics)", server.out)
    with urllib.request.urlopen(url) as page:
        assert b"pyromq_build_info" in page.read()
    assert server.stop() == 0


def test_programs_are_told_where_metrics_are(up: Up) -> None:
    hello = up("--set", "metricsExporterType=PROM", "--set", "metricsPromExporterPort=0").ready()

    assert re.fullmatch(r"http://127.0.0.1:\d+/metrics", hello["metrics"])


def test_the_screen_says_where_the_data_is(up: Up, tmp_path: Path) -> None:
    server = up()

    data = server.ready()["data"]

    assert data == str(tmp_path / "data" / "broker-a")
    assert data in server.out
    assert (Path(data) / "commitlog").is_dir()


def test_json_is_one_line_that_a_program_can_read(up: Up) -> None:
    server = up("--json")

    hello = server.ready()

    assert json.loads(server.out) == hello
    assert hello["event"] == "ready"
    assert hello["pid"] == server.process.pid


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_in_order_and_its_ready_file_goes(up: Up, number: int) -> None:
    server = up()
    server.ready()

    assert server.stop(number) == 0
    assert not server.ready_file.exists()
    assert server.err == ""


def test_messages_are_there_after_a_restart(shell: Any, up: Up) -> None:
    first = up()
    shell.output_of("produce", "-n", first.ready()["namesrv"], "kept", "one", "two")
    assert first.stop() == 0

    address = up().ready()["namesrv"]

    read = bodies(shell.output_of("consume", "-n", address, "kept", "--json"))
    assert sorted(read) == ["one", "two"]


def test_messages_are_there_after_the_process_was_killed(shell: Any, up: Up) -> None:
    first = up()
    shell.output_of("produce", "-n", first.ready()["namesrv"], "kept", "one", "two")
    first.stop(signal.SIGKILL)

    address = up().ready()["namesrv"]

    read = bodies(shell.output_of("consume", "-n", address, "kept", "--json"))
    assert sorted(read) == ["one", "two"]


def test_a_second_process_on_the_same_data_is_refused_in_one_line(shell: Any, up: Up) -> None:
    first = up()
    data = first.ready()["data"]

    second = up()

    assert second.wait() == 1
    assert len(second.err.splitlines()) == 1
    assert data in second.err
    assert first.process.poll() is None


def test_a_port_that_is_taken_is_told_with_the_option_to_change_it(shell: Any, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])

        ended = shell.run(
            "up", "--data", str(tmp_path / "data"), "--namesrv-port", port, "--broker-port", "0"
        )

    assert ended.returncode == 1
    assert f"127.0.0.1:{port}" in ended.stderr
    assert "--namesrv-port" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_data_folder_that_cannot_be_made_is_told_in_one_line(shell: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    ended = shell.run("up", "--data", str(tmp_path / "file" / "data"), "--namesrv-port", "0")

    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1
    assert "file/data" in ended.stderr


def test_a_broken_settings_file_ends_with_status_2_line_key_and_nearest_key(
    shell: Any, tmp_path: Path
) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerClusterName=DefaultCluster\nflushDiskTyp=SYNC_FLUSH\n")

    ended = shell.run("up", "-c", str(conf))

    assert ended.returncode == 2
    assert (
        ended.stderr
        == f"pyromq: {conf}:2: flushDiskTyp is not a known setting; did you mean flushDiskType?\n"
    )


def test_without_a_folder_data_goes_to_the_users_data_folder(shell: Any, tmp_path: Path) -> None:
    server = shell.serve("up", "--namesrv-port", "0", "--broker-port", "0")

    assert server.ready()["data"] == str(tmp_path / "share" / "pyromq" / "broker-a")


def test_settings_of_the_command_line_reach_the_broker(shell: Any, up: Up) -> None:
    address = up("--set", "autoCreateTopicEnable=false", "--broker-name", "b1").ready()["namesrv"]

    ended = shell.run("produce", "-n", address, "unknown", "x")

    assert ended.returncode == 3
    assert "unknown" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_what_is_advertised_is_listened_on(shell: Any, up: Up) -> None:
    """It said "ready at" an address on which nobody listened, with a brokerIP1 as Apache's files have it."""
    told = up("--set", "brokerIP1=127.0.0.2").ready()

    assert [told[server].split(":")[0] for server in ("broker", "namesrv")] == ["127.0.0.2"] * 2
    assert shell.output_of("produce", "-n", told["namesrv"], "hello", "Hello").startswith("SEND_OK")
    with socket.create_connection(("127.0.0.2", int(told["broker"].split(":")[1]))):
        pass


@pytest.mark.parametrize("command", ["up", "broker"])
def test_an_address_on_which_nobody_would_listen_is_not_advertised(
    shell: Any, tmp_path: Path, command: str
) -> None:
    data = ("--data", str(tmp_path / "data"))
    for listen in ((), ("--listen", "127.0.0.1")):
        refused = shell.run(command, "--advertise", "203.0.113.9", *listen, *data)

        assert refused.returncode == 2, refused.stderr
        assert "brokerIP1=203.0.113.9 is told to others" in refused.stderr
        assert "Traceback" not in refused.stderr
    assert not (tmp_path / "data" / "broker-a" / "commitlog").exists()
