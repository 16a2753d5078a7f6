from pathlib import Path

import debian_packages
import pytest


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(debian_packages, "CACHE", tmp_path)
    return tmp_path


def test_a_program_that_cannot_be_fetched_fails_the_test_with_what_to_install(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")

    with pytest.raises(pytest.fail.Exception, match="apt-get install chromium-headless-shell"):
        debian_packages.unpacked("chromium", ["chromium-headless-shell"])

    # What whoever fetches holds stays, and nothing that could be taken for the program.
    assert [path.name for path in cache.iterdir()] == ["chromium.lock"]


def test_what_was_fetched_before_is_taken_as_it_is(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    (cache / "chromium").mkdir()

    assert debian_packages.unpacked("chromium", ["chromium-headless-shell"]) == cache / "chromium"
