"""Bars of the same figure for all servers, as pictures for the documentation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from beside.figures import APACHE_4, APACHE_5, PYROMQ, TITLES, Row, kinds_of

COLOURS = {APACHE_4: "#b9bec8", APACHE_5: "#7f8897", PYROMQ: "#e25822"}
INK, PALE, PAPER = "#20242c", "#6b7280", "#ffffff"
WIDTH, LEFT, RIGHT, BAR, GAP = 1500, 520, 170, 26, 30
#: Drawn large and made small: smooth edges.
SCALE = 2


@dataclass(frozen=True)
class Chart:
    """A picture: which of the table's lines are in it, and what they are called there."""

    name: str
    title: str
    is_wanted: Callable[[Row], bool]


CHARTS = [
    Chart("throughput", "Messages a second (more is better)", lambda row: row.figure.name == "rate"),
    Chart(
        "cpu",
        "Messages for each second of the server's processor time (more is better)",
        lambda row: row.figure.name == "messages_per_server_cpu_s",
    ),
    Chart(
        "latency", "Latency in milliseconds (less is better)", lambda row: row.figure.label.endswith(", ms")
    ),
    Chart("memory", "Resident memory in MiB (less is better)", lambda row: row.figure.name == "mib"),
    Chart("start", "Seconds from start to first acknowledged send", lambda row: row.figure.name == "seconds"),
]


def draw_all(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Write a picture for each chart that has lines, and return the paths."""
    made = []
    for chart in CHARTS:
        wanted = [row for row in rows if chart.is_wanted(row) and row.values.get(APACHE_4) is not None]
        if wanted:
            path = folder / f"{chart.name}.png"
            draw(chart, wanted).quantize(64).save(path, optimize=True)
            made.append(path)
    return made


def draw(chart: Chart, rows: Sequence[Row]) -> Image.Image:
    """Return the picture: for each line a group of bars, as long as its value beside the group's longest."""
    kinds = kinds_of(rows)
    group = len(kinds) * BAR + GAP
    height = 120 + len(rows) * group
    picture = Image.new("RGB", (WIDTH * SCALE, height * SCALE), PAPER)
    pen = ImageDraw.Draw(picture)
    write_text(pen, 30, 20, chart.title, 28, INK)
    x = 30
    for kind in kinds:
        _box(pen, x, 70, x + 22, 92, COLOURS[kind])
        write_text(pen, x + 32, 68, TITLES[kind], 20, INK)
        x += 200
    for number, row in enumerate(rows):
        _group(pen, row, kinds, 115 + number * group)
    return picture.resize((WIDTH, height), Image.Resampling.LANCZOS)


def _group(pen: ImageDraw.ImageDraw, row: Row, kinds: Sequence[str], top: int) -> None:
    # The font that Pillow brings has no «×».
    write_text(pen, 30, top + 4, row.case.replace("×", " x "), 21, INK)
    if row.figure.label.endswith(", ms"):
        write_text(pen, 30, top + 32, row.figure.label, 18, PALE)
    longest = max((row.values.get(kind) or 0.0 for kind in kinds), default=0.0) or 1.0
    for number, kind in enumerate(kinds):
        value = row.values.get(kind)
        if value is None:
            continue
        y = top + number * BAR
        end = LEFT + max(int((WIDTH - LEFT - RIGHT) * value / longest), 2)
        _box(pen, LEFT, y + 2, end, y + BAR - 2, COLOURS[kind])
        write_text(pen, end + 10, y + 1, row.figure.write(value), 19, INK if kind == PYROMQ else PALE)


def _box(pen: ImageDraw.ImageDraw, left: int, top: int, right: int, bottom: int, colour: str) -> None:
    pen.rectangle((left * SCALE, top * SCALE, right * SCALE, bottom * SCALE), fill=colour)


def write_text(pen: ImageDraw.ImageDraw, x: int, y: int, text: str, size: int, colour: str) -> None:
    """Write a line of text at a place, in pixels of the finished picture."""
    pen.text(
        (x * SCALE, y * SCALE),
        text.replace("µs", "microseconds"),
        fill=colour,
        font=ImageFont.load_default(size * SCALE),
    )
