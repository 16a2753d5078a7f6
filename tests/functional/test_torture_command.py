"""`pyromq torture` as a user types it: real processes, faults, a verdict, a picture, an exit status."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pyromq.cli.main import app
from pyromq.cli.torture import torture_commands
from pyromq.cli.torture.torture_report import say_outcome
from pyromq.testing.waiting import eventually
from pyromq.torture.checker import judge
from pyromq.torture.history import History
from pyromq.torture.run_outcome import RunOutcome
from pyromq.torture.stage import Promises

pytestmark = pytest.mark.timeout(240)
PNG = b"\x89PNG\r\n\x1a\n"


def _start(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "pyromq", "torture", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, str]:
    """A short run of one broker that is killed, with all that it leaves."""
    folder = tmp_path_factory.mktemp("torture")
    process = _start(
        *("--minutes", "0.15", "--faults", "kill", "--only", "plain,ordered,batch", "--seed", "7"),
        *("--data", str(folder / "data"), "--png", str(folder / "run.png"), "--json"),
    )
    said, _ = process.communicate(timeout=200)
    return folder, process.returncode, said


def test_a_broker_that_is_killed_keeps_its_promises(kept: tuple[Path, int, str]) -> None:
    _, status, said = kept
    record = json.loads(said)

    assert record["kept"], record["promises"]
    assert status == 0
    assert record["seed"] == 7
    assert record["acknowledged"] > 0
    assert any(fault.startswith("kill") for fault in record["faults"])
    assert sum(promise["checked"] for promise in record["promises"]) > 0
    assert record["command"].endswith("--seed 7")


def test_standard_output_is_one_object_of_json_and_nothing_else(kept: tuple[Path, int, str]) -> None:
    assert len(kept[2].splitlines()) == 1
    assert json.loads(kept[2])["longestPause"]["producer"]["seconds"] >= 0


def test_the_picture_is_a_picture(kept: tuple[Path, int, str]) -> None:
    assert (kept[0] / "run.png").read_bytes().startswith(PNG)


def test_the_data_of_a_run_that_went_well_goes_and_its_history_stays(kept: tuple[Path, int, str]) -> None:
    record = json.loads(kept[2])

    assert [path.name for path in Path(record["data"]).iterdir() if path.is_dir()] == []
    assert judge(History.load(Path(record["history"])), Promises())


def test_no_process_is_left(kept: tuple[Path, int, str]) -> None:
    data = str(kept[0])

    def is_ours(process: Path) -> bool:
        try:
            return data in (process / "cmdline").read_text()
        except OSError:
            return False

    assert [path for path in Path("/proc").glob("[0-9]*") if is_ours(path)] == []


def test_a_history_with_a_lost_message_is_a_broken_promise(
    kept: tuple[Path, int, str], capsys: pytest.CaptureFixture[str]
) -> None:
    # Given the history of a run in which one acknowledged message is not in the log any more
    history = History.load(Path(json.loads(kept[2])["history"]))
    ack = next(event for event in history.of("ack") if event.fields["status"] == "SEND_OK")
    number = ack.fields["number"]
    for log in history.of("log"):
        messages = log.fields["messages"]
        assert isinstance(messages, list)
        log.fields["messages"] = [one for one in messages if isinstance(one, list) and one[1] != number]
    history.events = [
        event
        for event in history.events
        if event.kind not in ("deliver",) or event.fields["number"] != number
    ]

    outcome = RunOutcome(7, "1 broker", judge(history, Promises()), command="pyromq torture --seed 7")
    outcome.count(history)
    say_outcome(outcome, history)

    assert outcome.broken
    assert not outcome.as_record()["kept"]
    said = capsys.readouterr().out
    assert f"message {number} " in said
    assert "broken:" in said
    assert "pyromq torture --seed 7" in said


def test_a_broken_promise_ends_the_command_with_status_1(
    kept: tuple[Path, int, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = json.loads(kept[2])

    def run(order: object, folder: Path, outcome: RunOutcome, *, is_json: bool) -> object:
        class Ended:
            history = History.load(Path(broken["history"]))

        # The promises of a run whose answers promised what nobody kept.
        for event in Ended.history.of("log"):
            event.fields["messages"] = []
        outcome.verdicts = judge(Ended.history, Promises())
        Ended.outcome = outcome  # type: ignore[attr-defined]
        return Ended

    monkeypatch.setattr(torture_commands, "_run", run)
    result = CliRunner().invoke(app, ["torture", "--seed", "7", "--faults", "none", "--data", str(tmp_path)])

    assert result.exit_code == 1
    assert "broken:" in result.output


def test_a_fault_that_is_none_is_told_with_those_that_are() -> None:
    result = CliRunner().invoke(app, ["torture", "--faults", "kill,parttition"])

    assert result.exit_code == 2
    assert "'parttition' is no fault; did you mean partition?" in result.output
    assert "full-disk" in result.output


def test_a_kind_of_message_that_is_none_is_told_with_those_that_are() -> None:
    result = CliRunner().invoke(app, ["torture", "--only", "plane"])

    assert result.exit_code == 2
    assert "transaction" in result.output


def test_what_this_machine_does_not_allow_is_listed_with_the_way_to_get_it() -> None:
    result = CliRunner().invoke(app, ["torture", "--list-faults", "--etcd", "none", "--json"])

    faults = {one["fault"]: one for one in map(json.loads, result.output.splitlines())}
    assert faults["kill"]["leftOut"] is None
    assert "--replicas 2" in faults["switch-master"]["leftOut"]


def test_ctrl_c_heals_stops_and_reports_what_was_checked(tmp_path: Path) -> None:
    process = _start(
        *("--minutes", "10", "--faults", "pause", "--only", "plain", "--data", str(tmp_path), "--json")
    )
    logs = lambda: list(tmp_path.glob("seed-*/clients.log"))  # noqa: E731
    eventually(lambda: bool(logs()), 60, what="the run has begun")
    assert process.stderr is not None
    for line in process.stderr:
        if "under load" in line:
            break

    os.kill(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=120)

    record = json.loads(said)
    assert record["interrupted"]
    assert record["kept"], record["promises"]
    assert process.returncode == 130
