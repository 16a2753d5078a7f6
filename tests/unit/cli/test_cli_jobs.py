"""`pyromq job …`: what is wrong is said before Spark starts."""

from pathlib import Path

import pytest

from pyromq.cli.program import main


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["pyromq", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("replay --to audit", "say what to replay"),
        ("replay --archive DIR --dlq billing --to audit", "say what to replay"),
        ("replay --archive DIR --to audit", "--topic says which topic"),
        ("replay --dlq billing --topic orders --to audit", "--topic says which topic"),
        ("replay --dlq billing", "say where to"),
        ("replay --dlq billing --to audit --to-origin", "say where to"),
        ("replay --dlq billing --to audit --since yesterday", "--since yesterday"),
        ("archive orders --to DIR -o accessKey", "expected KEY=VALUE"),
        ("archive orders --to DIR -o nameServr=x", "did you mean 'nameServer'"),
        ("archive orders --to DIR -o accessKey=a", "give secretKey too"),
        ("archive orders --to DIR --follow --interval soon", "--interval soon"),
        ("archive orders --to DIR --conf x", "--conf x: expected KEY=VALUE"),
        ("archive orders --to DIR --master local --remote sc://x", "give one of them"),
        ("mirror orders --from a:1 --to b:1 --start middle", "expected earliest or latest"),
    ],
)
def test_wrong_options_are_named_with_status_two(
    arguments: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = [str(tmp_path) if one == "DIR" else one for one in arguments.split()]

    status = run(monkeypatch, "job", *given)

    assert (status, said in capsys.readouterr().err) == (2, True)


def test_an_archive_that_is_not_there_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run(monkeypatch, "job", "verify", str(tmp_path / "nowhere"))

    assert (status, "has no archive; is the path right?" in capsys.readouterr().err) == (1, True)


def test_no_java_is_said_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    status = run(monkeypatch, "job", "archive", "orders", "--to", str(tmp_path))

    assert (status, "install Java 17 or newer with" in capsys.readouterr().err) == (1, True)
