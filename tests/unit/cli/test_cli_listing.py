"""Tables as people see them on a narrow terminal."""

import io
from datetime import datetime

import pytest
from rich.console import Console

from pyromq.cli.output import columns
from pyromq.cli.views import listing
from pyromq.cli.views.listing import Listing
from pyromq.errors import NetworkError

NOW_MS = round(datetime.now().timestamp() * 1_000)
LONG = "C0000202297F7D35E75B4FC69A380000"
COLUMNS = (
    ("#Message ID", "message_id"),
    ("#Broker Name", "broker"),
    ("#Consumer Offset", "offset"),
    ("#Stored", "stored_at_ms"),
    ("#Group", "group"),
    ("#Write", "is_writable"),
)
ROW = {
    "message_id": LONG,
    "broker": "broker-a",
    "offset": 123_456,
    "stored_at_ms": NOW_MS,
    "group": "billing-of-the-region-group",
    "is_writable": True,
}


def drawn(width: int) -> list[str]:
    """Return the lines of a table on a terminal of this width."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(Listing(COLUMNS, [ROW]).drawn())
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


def test_nothing_is_cut_off_on_a_narrow_terminal() -> None:
    lines = drawn(70)

    assert all(len(line) <= 70 for line in lines)
    assert "…" not in "".join(lines)
    assert "".join(line.split()[0] for line in lines[2:] if not line.startswith(" ")) == LONG


def test_what_is_short_is_never_broken_and_its_head_is() -> None:
    lines = drawn(70)

    assert "Consumer" in lines[0]
    assert "Offset" in lines[1]
    assert "123456" in lines[2]
    assert "broker-a" in lines[2]
    assert datetime.fromtimestamp(NOW_MS / 1_000).strftime("%H:%M:%S") in lines[2]


def test_what_looks_like_markup_or_moves_the_cursor_is_shown_as_it_is() -> None:
    console = Console(file=io.StringIO(), width=80, color_system=None)
    found = Listing((("#Keys", "keys"), ("#Tags", "tags")), [{"keys": ["[/b]", "[red]"], "tags": "\x1b[2J"}])
    console.print(found.drawn())

    assert "[/b], [red]  \\x1b[2J" in console.file.getvalue()  # type: ignore[attr-defined]


def test_columns_are_aligned_by_what_characters_take_on_a_terminal() -> None:
    assert columns([("订单", "x"), ("orders", "y")]) == ["订单    x", "orders  y"]


def test_a_wide_terminal_has_a_line_for_each_row() -> None:
    lines = drawn(200)

    assert len([line for line in lines if LONG in line and "billing-of-the-region-group" in line]) == 1


def test_yes_and_no_stand_at_the_left() -> None:
    head, row = drawn(200)[-2:]

    assert head.index("Write") == row.index("yes")


def test_a_watch_goes_on_when_a_look_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = iter([Listing((), [{"look": 1}]), NetworkError("nobody answers"), Listing((), [{"look": 3}])])

    def look() -> Listing:
        found = next(looks, KeyboardInterrupt())
        if isinstance(found, BaseException):
            raise found
        return found

    monkeypatch.setattr(listing, "pause", lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        listing.show_again(look, 1.0, is_json=True)

    said = capsys.readouterr()
    assert said.out == '{"look":1}\n{"look":3}\n'
    assert said.err == "warning: nobody answers; looking again\n"
