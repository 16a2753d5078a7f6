"""tools/coverage_rows.py counts only what `make test` runs, and lets no row be left out without a page."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("coverage_rows", ROOT / "tools" / "coverage_rows.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["coverage_rows"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_paths_are_those_of_the_targets_check_and_test(tool: ModuleType) -> None:
    makefile = (
        "check: setup\n\t$(call beside,mypy,\\\n\t$(PY) -m pytest -q -n 2 tests/tidy tests/unit)\n\n"
        "test: check\n\t$(PY) -m pytest -q $(QUICK) tests/ha\n"
        "\t$(PY) -m pytest -q tests/a/test_b.py,\\\n\tx\n\n"
        "interop: setup\n\t$(PY) -m pytest -q tests/interop\n"
    )

    assert tool.tested_paths(makefile) == ["tests/a/test_b.py", "tests/ha", "tests/tidy", "tests/unit"]


def test_a_long_test_is_told_apart(tool: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "@pytest.mark.long\n@pytest.mark.row('A-1')\ndef test_one(): ...\n"
        "class TestMore:\n    @pytest.mark.row('A-2', 'A-3')\n    def test_two(self): ...\n"
    )

    found = [(one.row, one.is_long) for one in tool.namings(tmp_path / "test_some.py")]

    assert found == [("A-1", True), ("A-2", False), ("A-3", False)]


@pytest.mark.parametrize(
    ("kind", "page", "tests", "is_wrong"),
    [
        ("", "", [], True),
        ("", "", ["tests/test_a.py:1"], False),
        ("absent", "decision.md", [], False),
        ("absent", "decision.md", ["tests/test_a.py:1"], True),
        ("absent", "other.md", [], True),
        ("absent", "", [], True),
        ("explained", "decision.md", [], False),
        ("explained", "nowhere.md", ["tests/test_a.py:1"], True),
        ("forgotten", "decision.md", ["tests/test_a.py:1"], True),
    ],
)
def test_a_row_without_a_test_needs_a_page_that_names_it(
    tool: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    kind: str,
    page: str,
    tests: list[str],
    is_wrong: bool,
) -> None:
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    (tmp_path / "decision.md").write_text("A-1 is not built, because …")
    (tmp_path / "other.md").write_text("of something else")

    assert bool(list(tool.faults("A-1", tool.Row("says", kind, page), tests))) is is_wrong
