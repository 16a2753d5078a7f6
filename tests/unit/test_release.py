import re
import tomllib
from pathlib import Path

from pyromq.release import VERSION


def test_servers_tell_the_version_that_the_package_has() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]

    assert project["version"] == VERSION


def test_the_changelog_s_newest_release_is_this_one() -> None:
    titles = re.findall(r"(?m)^## (.+)$", (Path(__file__).parents[2] / "CHANGELOG.md").read_text())
    assert titles[0] == "Unreleased" or titles[0].startswith(f"{VERSION}, ")
    released = [title for title in titles if title != "Unreleased"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+, \d{4}-\d\d-\d\d", title) for title in released)
