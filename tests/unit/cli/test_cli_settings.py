import json
from pathlib import Path

import pytest

from pyromq.cli.program import main


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NAMESRV_ADDR", "PYROMQ_BROKER_NAME"):
        monkeypatch.delenv(name, raising=False)


def status_of(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the program in this process and return its exit status."""
    monkeypatch.setattr("sys.argv", ["pyromq", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert isinstance(caught.value.code, int)
    return caught.value.code


def printed_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> dict[str, tuple[str, str]]:
    assert status_of(monkeypatch, *arguments, "--print-settings", "--json") == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {record["key"]: (record["value"], record["source"]) for record in records}


def test_settings_are_printed_with_where_they_came_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("# mine\nfileReservedTime=48\n")
    monkeypatch.setenv("PYROMQ_BROKER_NAME", "broker-x")

    shown = printed_settings(
        monkeypatch, capsys, "broker", "-c", str(conf), "-n", "a:9876", "--set", "traceOn=false"
    )

    assert shown["fileReservedTime"] == ("48", f"{conf}:2")
    assert shown["brokerName"] == ("broker-x", "PYROMQ_BROKER_NAME")
    assert shown["namesrvAddr"] == ("a:9876", "-n")
    assert shown["traceOn"] == ("false", "--set")
    assert shown["listenPort"] == ("10911", "default")


def test_the_options_of_up_are_settings_of_the_broker(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [
        *("--listen", "0.0.0.0", "--advertise", "10.0.0.5", "--broker-port", "0"),
        *("--broker-name", "b", "--cluster-name", "c"),
    ]

    shown = printed_settings(monkeypatch, capsys, "up", *options)

    assert shown["bindAddress"] == ("0.0.0.0", "--listen")
    assert shown["brokerIP1"] == ("10.0.0.5", "--advertise")
    assert shown["listenPort"] == ("0", "--broker-port")
    assert shown["brokerName"] == ("b", "--broker-name")
    assert shown["brokerClusterName"] == ("c", "--cluster-name")


def test_rocketmqs_p_prints_the_brokers_settings_for_people(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(monkeypatch, "broker", "-p") == 0

    first = capsys.readouterr().out.splitlines()[0]
    assert first.split() == ["brokerName", "broker-a", "default"]


def test_the_name_servers_p_is_its_port(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed_settings(monkeypatch, capsys, "namesrv", "-p", "9877")["listenPort"] == ("9877", "-p")


def test_a_wrong_setting_ends_with_status_2_and_all_mistakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerNam=a\nlistenPort=x\n")

    assert status_of(monkeypatch, "broker", "-c", str(conf)) == 2

    told = capsys.readouterr().err
    assert f"{conf}:1: brokerNam is not a known setting; did you mean brokerName?" in told
    assert f"{conf}:2: listenPort: expected a whole number, not 'x'" in told
    assert "Traceback" not in told


@pytest.mark.row("CF-01")
def test_each_setting_without_effect_is_warned_about_in_a_line_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--set", "totalReplicas=3", "--set", "warmMapedFileEnable=true")
    assert status_of(monkeypatch, "broker", "-p", *given) == 0

    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("warning: --set: totalReplicas=3 has no effect (durability): ")
    assert second.startswith("warning: --set: warmMapedFileEnable=true has no effect: ")


def checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], path: Path, *arguments: str
) -> tuple[int, list[str]]:
    status = status_of(monkeypatch, *arguments, "--check", "-c", str(path))
    return status, capsys.readouterr().out.splitlines()


@pytest.mark.row("CF-03")
@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("brokerName=broker-b", 0),
        ("warmMapedFileEnable=true", 0),
        ("totalReplicas=3", 1),
        ("disableConsumeIfConsumerReadSlowly=true", 1),
        ("authenticationWhitelist=10.0.0.1", 1),
        ("totalReplicas=1", 0),
        ("brokerNam=x", 2),
    ],
)
def test_check_fails_when_a_setting_without_effect_would_change_a_promise(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: str,
    status: int,
) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(line + "\n")

    assert checked(monkeypatch, capsys, conf, "broker")[0] == status


@pytest.mark.row("CF-03")
def test_check_lists_what_has_no_effect_for_people_and_for_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("totalReplicas=3\nfileReservedTime=1\nsendMessageThreadPoolNums=128\n")

    _, lines = checked(monkeypatch, capsys, conf, "broker")
    _, records = checked(monkeypatch, capsys, conf, "broker", "--json")

    assert [line.split(" has no effect")[0] for line in lines] == [
        f"{conf}:1: totalReplicas=3",
        f"{conf}:3: sendMessageThreadPoolNums=128",
        "without effect: 2; of these, 1 would change what is promised",
    ]
    first, second = map(json.loads, records)
    assert (first["key"], first["value"], first["default"]) == ("totalReplicas", "3", "1")
    assert (first["promise"], first["category"]) == ("durability", "replication")
    assert (second["promise"], second["source"]) == (None, f"{conf}:3")


@pytest.mark.row("CF-03")
def test_a_name_servers_file_is_checked_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = tmp_path / "namesrv.conf"
    conf.write_text("brokerId=1\n")

    assert checked(monkeypatch, capsys, conf, "namesrv") == (
        0,
        [
            f"{conf}:1: brokerId=1 has no effect: this server has no such setting",
            "without effect: 1; of these, 0 would change what is promised",
        ],
    )


def test_a_misspelt_variable_is_pointed_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYROMQ_BROKR_NAME", "x")

    assert status_of(monkeypatch, "broker", "-p") == 0

    assert "did you mean PYROMQ_BROKER_NAME?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [("up", "--namesrv-port", "70000"), ("up", "--nonsense"), ("nonsense",), ("produce",)]
)
def test_misuse_of_the_command_line_ends_with_status_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert status_of(monkeypatch, *arguments) == 2


@pytest.mark.parametrize("command", ["up", "namesrv", "broker", "produce", "consume"])
def test_every_command_teaches_by_example(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert status_of(monkeypatch, command, "--help") == 0

    assert f"pyromq {command}" in capsys.readouterr().out.partition("Examples:")[2]
