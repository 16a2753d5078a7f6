"""`pyromq version`: for people a line, for programs what it runs with."""

import json
import platform
from importlib import metadata

import pytest

from pyromq.cli.version import VersionOptions, installed_extras, version
from pyromq.kernel import WHY_PURE
from pyromq.release import VERSION


def test_a_program_is_told_what_it_runs_with(capsys: pytest.CaptureFixture[str]) -> None:
    version(VersionOptions(as_json=True))

    said = json.loads(capsys.readouterr().out)

    assert said["version"] == VERSION
    assert said["kernel"] == {"compiled": WHY_PURE is None, "why_not": WHY_PURE}
    assert said["python"] == platform.python_version()
    assert {"grpc", "lz4"} <= set(said["extras"])
    assert "dev" not in said["extras"]


def test_an_extra_counts_when_all_of_its_packages_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"pyromq", "h2", "protobuf"}

    class Installed:
        requires = (
            "msgspec>=0.19",
            'h2<5,>=4.1; extra == "grpc"',
            "protobuf>=4; extra == 'grpc'",
            'lz4>=4.3; extra == "lz4"',
        )

    def distribution(name: str) -> type[Installed]:
        if name not in there:
            raise metadata.PackageNotFoundError(name)
        return Installed

    monkeypatch.setattr(metadata, "distribution", distribution)
    assert installed_extras() == ["grpc"]
    there.remove("h2")
    assert installed_extras() == []
    there.remove("pyromq")
    assert installed_extras() == []
