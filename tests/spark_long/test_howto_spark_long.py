"""docs/howto/spark.md: all of its commands, among them a project of Spark Declarative Pipelines."""

from pathlib import Path

import pytest
from howto import read_page

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "spark.md"


@pytest.mark.timeout(1_800)
def test_all_commands_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    _, first, second, checked, declared, program = read_page(PAGE, tmp_path, {"short", "long"})

    assert first.count('"orders":5') == 3, "the fourth minute is open"
    assert "answers: 1 rows" in second, "nothing is read twice"
    assert second.count('"orders":5') == 4, "the fourth minute is over, and the others are not told again"
    assert second.count("'orders': 5") == 4
    assert "nothing wrong" in checked
    assert "Run is COMPLETED" in declared
    assert declared.count('"amount": 250') == 1, "the one that is worth a look"
    assert "paid" in program
