"""Lines of a figure over a growing number, both on logarithmic axes, as pictures for the documentation."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from PIL import Image, ImageDraw

from beside.charts import COLOURS, INK, PALE, PAPER, SCALE, write_text
from beside.figures import ECHO, TITLES

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 740, 460, 90, 30, 110, 60
COLOUR_OF = COLOURS | {ECHO: "#3b82f6"}
RADIUS = 4

#: For each kind of server, what was measured at which number.
Lines = Mapping[str, Sequence[tuple[float, float]]]


def draw_panels(title: str, axis: str, panels: Sequence[tuple[str, Lines]]) -> Image.Image:
    """Return a picture with a panel for each figure, beside one another."""
    picture = Image.new("RGB", (WIDTH * len(panels) * SCALE, HEIGHT * SCALE), PAPER)
    pen = ImageDraw.Draw(picture)
    write_text(pen, 30, 16, title, 26, INK)
    x = 30
    for kind in dict.fromkeys(kind for _, lines in panels for kind in lines):
        pen.rectangle([x * SCALE, 64 * SCALE, (x + 20) * SCALE, 80 * SCALE], fill=COLOUR_OF[kind])
        write_text(pen, x + 28, 62, TITLES[kind], 18, INK)
        x += 170
    for number, (label, lines) in enumerate(panels):
        _Panel(pen, number * WIDTH, lines).draw(label, axis)
    return picture.resize((WIDTH * len(panels), HEIGHT), Image.Resampling.LANCZOS)


class _Panel:
    """The place of one figure in a picture, and its scales."""

    def __init__(self, pen: ImageDraw.ImageDraw, left: int, lines: Lines) -> None:
        self._pen = pen
        self._left = left
        self._lines = lines
        xs = [x for line in lines.values() for x, _ in line] or [1.0]
        ys = [y for line in lines.values() for _, y in line] or [1.0]
        self._xs = sorted(set(xs))
        self._x_range = _decades(min(xs), max(xs), whole=False)
        self._y_range = _decades(min(ys), max(ys), whole=True)

    def draw(self, label: str, axis: str) -> None:
        """Draw axes, numbers and lines."""
        write_text(self._pen, self._left + LEFT, TOP - 26, label, 18, PALE)
        write_text(self._pen, self._left + WIDTH - RIGHT - 9 * len(axis), HEIGHT - 26, axis, 18, PALE)
        for exponent in range(round(self._y_range[0]), round(self._y_range[1]) + 1):
            y = self._y(10.0**exponent)
            self._line((LEFT, y), (WIDTH - RIGHT, y), "#e5e7eb", 1)
            write_text(self._pen, self._left + 20, int(y) - 10, _short(10.0**exponent), 16, PALE)
        for x in self._xs:
            write_text(self._pen, self._left + int(self._x(x)) - 12, HEIGHT - BOTTOM + 8, _short(x), 16, PALE)
        for kind, line in self._lines.items():
            places = [(self._x(x), self._y(y)) for x, y in line]
            for begin, end in pairwise(places):
                self._line(begin, end, COLOUR_OF[kind], 3)
            for x, y in places:
                x += self._left
                box = [(x - RADIUS) * SCALE, (y - RADIUS) * SCALE, (x + RADIUS) * SCALE, (y + RADIUS) * SCALE]
                self._pen.ellipse(box, fill=COLOUR_OF[kind])

    def _line(self, begin: tuple[float, float], end: tuple[float, float], colour: str, width: int) -> None:
        ends = [((self._left + x) * SCALE, y * SCALE) for x, y in (begin, end)]
        self._pen.line(ends, fill=colour, width=width * SCALE)

    def _x(self, value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * _share(value, self._x_range)

    def _y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * _share(value, self._y_range)


def _decades(least: float, most: float, *, whole: bool) -> tuple[float, float]:
    low, high = math.log10(least), math.log10(most)
    if whole:
        low, high = math.floor(low), math.ceil(high)
    return low, high if high > low else low + 1


def _share(value: float, span: tuple[float, float]) -> float:
    return (math.log10(value) - span[0]) / (span[1] - span[0])


def _short(value: float) -> str:
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{name}" if value % unit == 0 else f"{value / unit:.3g}{name}"
    return f"{value:g}"
