"""What is said and drawn of curves; the measuring itself needs servers and a quiet machine."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests/interop")]

from beside.figures import APACHE_4, ECHO, PYROMQ  # noqa: E402
from beside.lines import draw_panels  # noqa: E402
from beside.page import put_between  # noqa: E402
from curves import CURVES, QUICK, _thinned, lines_of, table_of  # noqa: E402

FOUND = {
    (1, PYROMQ): [{"rate": 10.0, "us": 4.0}, {"rate": 30.0, "us": 8.0}, {"rate": 20.0, "us": 6.0}],
    (1, ECHO): [{"rate": 40.0, "us": 3.0}],
    (1, APACHE_4): [{"rate": 5.0, "us": 30.0}],
    (1_000, PYROMQ): [{"rate": 20_000.0, "us": 5.0}],
    (1_000, ECHO): [],
}


def test_a_line_has_the_median_of_each_point_in_the_order_of_the_axis() -> None:
    lines = lines_of(FOUND, "rate")

    assert lines == {APACHE_4: [(1, 5.0)], PYROMQ: [(1, 20.0), (1_000, 20_000.0)], ECHO: [(1, 40.0)]}


def test_the_table_says_how_far_a_point_is_from_the_echo_server_and_leaves_out_what_was_not_measured() -> (
    None
):
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in _rows(table_of(CURVES[0], FOUND))]

    assert rows[2] == ["1", "5", "30.00", "20", "6.00", "40", "3.00", "2.00 ×"]
    assert rows[3] == ["1,000", "", "", "20,000", "5.00", "", "", ""]


def _rows(table: str) -> list[str]:
    return table.strip().splitlines()


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.key)
def test_a_quick_run_has_the_ends_of_each_axis(curve: object) -> None:
    points = curve.points  # type: ignore[attr-defined]
    quick = list(_thinned(points, QUICK.skips))

    assert [quick[0], quick[-1]] == [points[0], points[-1]]
    assert len(quick) < len(points)


def test_a_point_stands_higher_and_further_right_the_larger_it_is() -> None:
    lines = {PYROMQ: [(1.0, 10.0), (100.0, 1_000.0)]}
    picture = draw_panels("Title", "axis", [("rate", lines)])
    # Orange is ours; the first pixel from the left is the first point, the last from it the second.
    ours = [
        (x, y)
        for x in range(picture.width)
        for y in range(100, picture.height)
        if picture.getpixel((x, y))[0] > 200 > 120 > picture.getpixel((x, y))[2]  # type: ignore[index]
    ]

    assert min(ours)[1] > max(ours)[1] + 100
    assert max(ours)[0] > min(ours)[0] + 300


def test_what_stands_around_the_marks_of_a_page_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<begin>\nold\n<end>\nafter\n")

    put_between(page, ("<begin>\n", "<end>\n"), "new\n")

    assert page.read_text() == "before\n<begin>\nnew\n<end>\nafter\n"
