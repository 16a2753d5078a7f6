"""Tests that pages of the documentation name are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
NAME = re.compile(r"`((?:tests/[a-z_/]+/)?test_\w+(?:\.py)?)`")


@pytest.mark.parametrize(
    "page", [page for page in PAGES if NAME.search(page.read_text())], ids=lambda page: page.name
)
def test_the_tests_that_a_page_names_are_there(page: Path) -> None:
    files = sorted((ROOT / "tests").rglob("*.py"))
    known = {path.name for path in files} | {str(path.relative_to(ROOT)) for path in files}
    for path in files:
        known.update(re.findall(r"def (test_\w+)", path.read_text()))
    assert [name for name in NAME.findall(page.read_text()) if name not in known] == []
