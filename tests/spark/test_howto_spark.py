"""docs/howto/spark.md: its first commands, run in order in an empty folder, as a reader would.

Each start of Spark costs; the others are run by `make test-spark-long`.
"""

import re
from pathlib import Path

import pytest
from howto import Block, Reader, blocks, read_page

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "spark.md"


@pytest.mark.timeout(600)
def test_the_commands_of_the_page_lead_to_a_running_pipeline(tmp_path: Path) -> None:
    assert [block.text for block in blocks(PAGE) if block.when == "background"] == ["pyromq up\n"]

    _, first = read_page(PAGE, tmp_path, {"short"})

    assert first.count('"orders":5') == 3, "the fourth minute is open"
    assert "table: 20 rows" in first


@pytest.mark.timeout(600)
def test_check_says_what_the_page_shows(tmp_path: Path) -> None:
    """Two mistakes, one in an option and one in the SQL, are told as on the page, one after the other."""
    shown = re.findall(r"^shop/pipeline.yml:\d.*$", PAGE.read_text(), re.MULTILINE)
    reader = Reader(tmp_path)
    try:
        reader.type(Block("", "sh", "pyromq topic create orders; pyromq topic create orders-per-minute"))
        reader.type(Block("", "sh", "pyromq pipeline init shop/pipeline.yml"))
        for wrong, right in (("startingOfsets", "startingOffsets"), ("'), knd", "'), kind")):
            spoil = f'sed -i "s/{right}/{wrong}/" shop/pipeline.yml'
            mend = f'sed -i "s/{wrong}/{right}/" shop/pipeline.yml'
            said = reader.type(Block("", "sh", f"{spoil}; pyromq pipeline check shop || true; {mend}"))
            assert said.strip() == shown.pop(0)
    finally:
        reader.close()
    assert shown == []
