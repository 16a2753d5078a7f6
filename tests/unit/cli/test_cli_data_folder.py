from pathlib import Path

import pytest

from pyromq.cli.servers.data_folder import FolderUnusable, default_folder, prepare


def test_data_goes_to_the_users_data_folder() -> None:
    assert default_folder({"XDG_DATA_HOME": "/somewhere"}) == Path("/somewhere/pyromq")


@pytest.mark.parametrize("environment", [{}, {"XDG_DATA_HOME": ""}, {"XDG_DATA_HOME": "relative"}])
def test_without_a_usable_variable_that_is_in_the_home_folder(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/someone")

    assert default_folder(environment) == Path("/home/someone/.local/share/pyromq")


def test_a_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    assert prepare(tmp_path / "a" / "b").is_dir()


def test_a_folder_below_a_file_is_refused_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(FolderUnusable, match="file/data cannot be made: Not a directory"):
        prepare(tmp_path / "file" / "data")


def test_a_file_in_the_folders_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(FolderUnusable, match="File exists"):
        prepare(tmp_path / "file")
