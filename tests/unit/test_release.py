import tomllib
from pathlib import Path

from pyromq.release import VERSION


def test_servers_tell_the_version_that_the_package_has() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]

    assert project["version"] == VERSION
