"""docs/howto/spark.md: its first commands, run in order in an empty folder, as a reader would.

Each start of Spark costs; the others are run by `make test-spark-long`.
"""

from pathlib import Path

import pytest
from howto import blocks, read_page

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "spark.md"


@pytest.mark.timeout(600)
def test_the_commands_of_the_page_lead_to_a_running_pipeline(tmp_path: Path) -> None:
    assert [block.text for block in blocks(PAGE) if block.when == "background"] == ["pyromq up\n"]

    _, first = read_page(PAGE, tmp_path, {"short"})

    assert first.count('"orders":5') == 3, "the fourth minute is open"
    assert "table: 20 rows" in first
