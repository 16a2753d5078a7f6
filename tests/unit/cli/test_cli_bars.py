"""Bars are for people who wait at a terminal."""

import io
import sys

import pytest

from pyromq.cli import bars
from pyromq.testing.waiting import eventually


class Terminal(io.StringIO):
    """Keeps what is drawn on it."""

    def isatty(self) -> bool:
        return True


def at_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make standard error a terminal and standard output none; every work is long.

    Not a fixture: pytest puts its own streams in place between those and the test.
    """
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(bars, "DELAY_S", 0.0)
    return terminal


def test_a_terminal_shows_how_much_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_terminal(monkeypatch)
    assert list(bars.tracked(range(7), "topics")) == list(range(7))

    assert "topics" in terminal.getvalue()
    assert "7/7" in terminal.getvalue()


def test_without_a_total_it_is_shown_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_terminal(monkeypatch)
    with bars.bar("messages", None) as advance:
        advance(5)

    assert "5/?" in terminal.getvalue()


def test_a_bar_comes_while_the_first_thing_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_terminal(monkeypatch)
    with bars.bar("topics", 7):
        eventually(lambda: "0/7" in terminal.getvalue())


def test_what_is_quickly_done_has_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_terminal(monkeypatch)
    monkeypatch.setattr(bars, "DELAY_S", 3_600.0)

    assert list(bars.tracked([1, 2], "topics")) == [1, 2]

    assert terminal.getvalue() == ""


def test_a_pipe_has_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    at_terminal(monkeypatch)
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)

    list(bars.tracked([1, 2], "topics"))

    assert pipe.getvalue() == ""


def test_lines_that_go_to_the_terminal_have_none_beside_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = at_terminal(monkeypatch)
    assert bars.is_seen(prints_lines=True)
    monkeypatch.setattr(sys, "stdout", Terminal())

    with bars.bar("messages", 2, prints_lines=True) as advance:
        advance(2)

    assert terminal.getvalue() == ""


def test_a_view_that_is_drawn_again_and_again_has_none_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_terminal(monkeypatch)
    with bars.hidden():
        list(bars.tracked([1, 2], "topics"))

    assert terminal.getvalue() == ""
