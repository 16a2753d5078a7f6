"""The documentation hangs together: what a page names is there, and every page can be found."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *DOCS.rglob("*.md"),
        *(ROOT / "src").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
    ]
)
TEST = re.compile(r"`((?:tests/[a-z_/]+/)?test_\w+(?:\.py)?)`")
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
TITLE = re.compile(r"^#+ (.+)$", re.MULTILINE)


def test_there_are_pages_to_look_at() -> None:
    assert len(PAGES) > 50


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_tests_that_a_page_names_are_there(page: Path) -> None:
    named = TEST.findall(page.read_text())
    assert [name for name in named if name not in _known_tests()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    links = LINK.findall(CODE.sub("", page.read_text()))
    assert [link for link in links if not _leads_somewhere(page, *link)] == []


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.parent.parent == DOCS], ids=lambda page: page.name
)
def test_the_documentation_s_first_page_leads_to_every_other(page: Path) -> None:
    links = {target for target, _ in LINK.findall((DOCS / "README.md").read_text())}
    path = page.relative_to(DOCS)
    assert str(path) in links or str(path.parent) in links


@cache
def _known_tests() -> frozenset[str]:
    files = sorted((ROOT / "tests").rglob("*.py"))
    names = (name for path in files for name in re.findall(r"def (test_\w+)", path.read_text()))
    return frozenset(
        [*names, *(path.name for path in files), *(str(path.relative_to(ROOT)) for path in files)]
    )


def _leads_somewhere(page: Path, target: str, place: str) -> bool:
    path = (page.parent / target).resolve() if target else page
    if not path.exists():
        return False
    return not place or path.suffix != ".md" or place in _places(path)


def _places(page: Path) -> set[str]:
    """Return the anchors of a page's titles, as those who show it make them."""
    titles = (re.sub(r"[`*]", "", title).lower() for title in TITLE.findall(page.read_text()))
    return {re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-") for title in titles}
