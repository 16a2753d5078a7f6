import re
import shlex
from pathlib import Path

import pytest

from pyromq.cli.program import main

ROOT = Path(__file__).parents[3]
SERVER_COMMAND = re.compile(r"pyromq (?:up|namesrv|broker)\b[^`\n#:;|]*(?::\d+[^`\n#:;|]*)?")


def documented_commands() -> list[str]:
    # A command may be broken by a line's end inside backticks.
    text = re.sub(
        r"`[^`]*`", lambda code: code[0].replace("\n", " "), (ROOT / "docs/howto/run.md").read_text()
    )
    return sorted({match.strip() for match in SERVER_COMMAND.findall(text)})


def test_the_page_has_commands() -> None:
    assert len(documented_commands()) >= 8


@pytest.mark.parametrize("command", documented_commands())
def test_a_documented_command_is_understood(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = shlex.split(command)[1:]
    if "-c" in arguments:
        conf = tmp_path / arguments[arguments.index("-c") + 1]
        conf.parent.mkdir(parents=True, exist_ok=True)
        conf.write_text("brokerClusterName=DefaultCluster\n")
    monkeypatch.setattr("sys.argv", ["pyromq", *arguments, "--print-settings"])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 0, capsys.readouterr().err
