"""A run as a picture: what was acknowledged and delivered, second by second, above what was done to whom.

Pillow draws it (decision 11), which comes with `pip install 'pyromq[torture]'`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from pyromq.errors import ConfigError
from pyromq.torture.history import History, HistoryEvent
from pyromq.torture.nemesis import BEGIN, END
from pyromq.torture.pauses import SEND_OK, WaitSpan
from pyromq.torture.run_outcome import RunOutcome

INK, PALE, PAPER, GRID, FLOOR = "#20242c", "#6b7280", "#ffffff", "#e5e7eb", "#f6f7f9"
ACKS, DELIVERIES = "#e25822", "#2563eb"
WIDTH, LEFT, RIGHT = 1600, 170, 40
CHART_TOP, CHART_HEIGHT, ROW = 120, 340, 30
#: Above the curves, for what is written there.
HEADROOM = 60
#: Drawn large and made small: smooth edges.
SCALE = 2
#: What a fault's name has in it → its colour, and what the legend says; the first that fits.
COLOURS = (
    (("client",), "#6b7280", "clients"),
    (("etcd", "namesrv", "switch"), "#0d9488", "etcd, name servers, switches"),
    (("disk",), "#7c3aed", "disks"),
    (("pause",), "#d97706", "pauses"),
    (("kill", "terminate", "lonely"), "#dc2626", "kills"),
    (("",), "#3b82f6", "links and clocks"),
)


def why_no_pictures() -> str | None:
    """Return why no picture can be drawn here, or None when one can."""
    try:
        import PIL  # noqa: F401
    except ImportError:
        return "a picture needs Pillow: pip install 'pyromq[torture]'"
    return None


def check_picture(path: Path) -> None:
    """Raise ConfigError where a picture cannot be drawn; better before a run than after it."""
    if reason := why_no_pictures():
        raise ConfigError(f"--png: {reason}")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"--png: there is no folder {path.absolute().parent}")


@dataclass(frozen=True, slots=True)
class Bar:
    """A fault, from its begin to its end."""

    row: str
    name: str
    begin_s: float
    end_s: float


@dataclass(slots=True)
class Timeline:
    """The content of a picture of a run."""

    seconds: float
    #: How many seconds one point of the curves stands for.
    step_s: float
    acks: Counter[int] = field(default_factory=Counter)
    deliveries: Counter[int] = field(default_factory=Counter)
    bars: list[Bar] = field(default_factory=list)
    #: Node, and from when to when it was a master.
    reigns: list[Bar] = field(default_factory=list)
    healed_s: float | None = None

    @property
    def rows(self) -> list[str]:
        """Whoever something was done to, in the order of names."""
        return sorted({bar.row for bar in (*self.bars, *self.reigns)})

    @property
    def highest(self) -> float:
        """The highest rate of the curves, made a round number."""
        rate = max((*self.acks.values(), *self.deliveries.values(), 1)) / self.step_s
        return next(one for one in _round_numbers() if one >= rate)


def timeline_of(history: History) -> Timeline:
    """Return what a history has to show."""
    events = history.events
    seconds = events[-1].at_s if events else 1.0
    line = Timeline(seconds, max(0.5, seconds / 300))
    begun: dict[object, HistoryEvent] = {}
    masters: dict[object, HistoryEvent] = {}
    for event in events:
        fields = event.fields
        if event.kind == "ack" and fields.get("status") == SEND_OK:
            line.acks[int(event.at_s / line.step_s)] += 1
        elif event.kind == "deliver":
            line.deliveries[int(event.at_s / line.step_s)] += 1
        elif event.kind == BEGIN:
            begun[fields.get("number")] = event
        elif event.kind == END and (begin := begun.pop(fields.get("number"), None)) is not None:
            line.bars.append(Bar(event.actor, str(fields["fault"]), begin.at_s, event.at_s))
        elif event.kind == "master":
            if (before := masters.get(fields["group"])) is not None:
                line.reigns.append(Bar(before.actor, "master", before.at_s, event.at_s))
            masters[fields["group"]] = event
        elif event.kind == "healed":
            line.healed_s = event.at_s
    line.bars += [Bar(one.actor, str(one.fields["fault"]), one.at_s, seconds) for one in begun.values()]
    line.reigns += [Bar(one.actor, "master", one.at_s, seconds) for one in masters.values()]
    return line


def draw_timeline(history: History, outcome: RunOutcome, path: Path) -> None:
    """Write the picture of a run."""
    from PIL import Image, ImageDraw

    line = timeline_of(history)
    height = CHART_TOP + CHART_HEIGHT + 70 + max(1, len(line.rows)) * ROW + 60
    picture = Image.new("RGB", (WIDTH * SCALE, height * SCALE), PAPER)
    _Drawing(ImageDraw.Draw(picture), line).draw(outcome)
    smooth = picture.resize((WIDTH, height), Image.Resampling.LANCZOS)
    smooth.save(path, format="PNG", optimize=True)


class _Drawing:
    """A pen, and where a second is."""

    def __init__(self, pen: Any, line: Timeline) -> None:
        self._pen = pen
        self._line = line
        self._bottom = CHART_TOP + CHART_HEIGHT

    def draw(self, outcome: RunOutcome) -> None:
        self._head(outcome)
        self._box(LEFT, CHART_TOP, WIDTH - RIGHT, self._bottom, FLOOR)
        self._pause(outcome.pauses.producer, "#fde4d8", "producer", CHART_TOP + 8)
        self._pause(outcome.pauses.consumer, "#dbe6fd", "consumer", CHART_TOP + 30)
        self._grid()
        self._curve(self._line.deliveries, DELIVERIES)
        self._curve(self._line.acks, ACKS)
        self._faults()

    def _head(self, outcome: RunOutcome) -> None:
        broken = len(outcome.broken)
        said = f"{broken} promise{'s' * (broken > 1)} broken" if broken else "every promise kept"
        self._text(30, 18, f"pyromq torture: {outcome.cluster}", 26, INK)
        faults = sum(outcome.faults.values())
        self._text(
            30,
            56,
            f"seed {outcome.seed}, {outcome.seconds:,.0f} s, {faults:,} faults, {outcome.acknowledged:,} "
            f"messages acknowledged, {outcome.delivered:,} deliveries: {said}",
            18,
            "#b91c1c" if broken else "#15803d",
        )
        x = float(LEFT)
        for colour, text in ((ACKS, "acknowledged a second"), (DELIVERIES, "delivered a second")):
            self._box(x, 96, x + 26, 102, colour)
            x += 36 + self._text(x + 36, 88, text, 16, INK) + 30

    def _grid(self) -> None:
        highest = self._line.highest
        for part in range(5):
            value = highest * part / 4
            y = self._y(value)
            self._box(LEFT, y, WIDTH - RIGHT, y + 1, GRID)
            self._text_right(LEFT - 10, y - 9, f"{value:,.0f}" if highest >= 10 else f"{value:.1f}", 15, PALE)
        for second in _ticks(self._line.seconds):
            x = self._x(second)
            self._box(x, CHART_TOP, x + 1, self._bottom + 40 + len(self._line.rows) * ROW, GRID)
            self._text(x - 8, self._bottom + 6, _clock(second), 15, PALE)

    def _curve(self, counts: Counter[int], colour: str) -> None:
        step_s = self._line.step_s
        last = int(self._line.seconds / step_s)
        points = [
            (self._x((at + 0.5) * step_s) * SCALE, self._y(counts[at] / step_s) * SCALE)
            for at in range(last + 1)
        ]
        if len(points) > 1:
            self._pen.line(points, fill=colour, width=2 * SCALE, joint="curve")

    def _pause(self, pause: WaitSpan, colour: str, who: str, y: float) -> None:
        if pause.seconds < 0.05:
            return
        begin, end = self._x(pause.until_s - pause.seconds), self._x(pause.until_s)
        self._box(begin, CHART_TOP, max(end, begin + 2), self._bottom, colour)
        text = f"longest pause of a {who}: {pause.seconds:.1f} s"
        width = self._width(text, 15)
        x = end + 6 if end + 6 + width < WIDTH - RIGHT else begin - width - 6
        self._text(x, y, text, 15, INK)

    def _faults(self) -> None:
        top = self._bottom + 40
        rows = self._line.rows
        places = {row: top + number * ROW for number, row in enumerate(rows)}
        for row, y in places.items():
            self._text_right(LEFT - 12, y + 4, row, 16, INK)
            self._box(LEFT, y + ROW - 2, WIDTH - RIGHT, y + ROW - 1, GRID)
        for bar in self._line.reigns:
            y = places[bar.row]
            self._box(self._x(bar.begin_s), y + ROW - 5, self._x(bar.end_s), y + ROW - 2, INK)
        for bar in sorted(self._line.bars, key=lambda one: one.begin_s - one.end_s):
            self._bar(bar, places[bar.row])
        if self._line.healed_s is not None:
            x = self._x(self._line.healed_s)
            self._box(x, CHART_TOP, x + 2, top + len(rows) * ROW, "#15803d")
            self._text_right(x - 6, self._bottom - 24, "healed", 15, "#15803d")
        x = float(LEFT)
        for colour, text in [*((colour, text) for _, colour, text in COLOURS), (INK, "line: was master")]:
            y = top + max(1, len(rows)) * ROW + 14
            self._box(x, y + 4, x + 16, y + 16, colour)
            x += 24 + self._text(x + 24, y, text, 15, PALE) + 26

    def _bar(self, bar: Bar, y: float) -> None:
        begin, end = self._x(bar.begin_s), self._x(bar.end_s)
        self._box(begin, y + 3, max(end, begin + 3), y + ROW - 7, _colour(bar.name))
        if self._width(bar.name, 13) + 8 < end - begin:
            self._text(begin + 4, y + 4, bar.name, 13, PAPER)

    # Pens ---------------------------------------------------------------------------------------------

    def _x(self, second: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * second / max(self._line.seconds, 0.1)

    def _y(self, rate: float) -> float:
        return self._bottom - (CHART_HEIGHT - HEADROOM) * rate / self._line.highest

    def _box(self, left: float, top: float, right: float, bottom: float, colour: str) -> None:
        self._pen.rectangle((left * SCALE, top * SCALE, right * SCALE, bottom * SCALE), fill=colour)

    def _text(self, x: float, y: float, text: str, size: int, colour: str) -> float:
        self._pen.text((x * SCALE, y * SCALE), text, fill=colour, font=_font(size))
        return self._width(text, size)

    def _text_right(self, x: float, y: float, text: str, size: int, colour: str) -> None:
        self._text(x - self._width(text, size), y, text, size, colour)

    def _width(self, text: str, size: int) -> float:
        return float(self._pen.textlength(text, font=_font(size))) / SCALE


def _round_numbers() -> Iterator[float]:
    """Yield numbers that can be divided by four without a fuss, from small to large."""
    for power in count():
        yield from (step * 10**power for step in (4, 6, 8, 12, 16, 20, 28))


def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size * SCALE)


def _colour(fault: str) -> str:
    return next(colour for words, colour, _ in COLOURS if any(word in fault for word in words))


def _ticks(seconds: float, at_most: int = 16) -> Iterator[float]:
    steps: Sequence[int] = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600)
    step = next((one for one in steps if seconds / one <= at_most), steps[-1])
    yield from range(0, int(seconds) + 1, step)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"
