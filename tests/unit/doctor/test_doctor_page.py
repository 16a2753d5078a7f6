"""The page of the documentation and the checks agree."""

import re
from pathlib import Path

from pyromq.doctor.checks import CHECKS, PRODUCTION

PAGE = Path(__file__).parents[3] / "docs/howto/doctor.md"


def sections() -> dict[str, str]:
    """Return the page's sections about checks, by their headings."""
    parts = re.split(r"^### (\S+)$", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_the_page_has_a_section_for_each_check_in_their_order() -> None:
    assert list(sections()) == [check.name for check in (*CHECKS, *PRODUCTION)]


def test_each_section_shows_what_its_check_prints() -> None:
    found = sections()

    assert found
    for name, text in found.items():
        shown = re.search(
            r"^    [✗!·] (problem|warning|note): .*?^        \((\S+)\)$", text, re.MULTILINE | re.DOTALL
        )
        assert shown is not None, name
        assert shown[2] == name
        assert "        why: " in shown[0], name
        assert "        do:  " in shown[0], name
