"""A time in which clients are refused: one line in the log when it begins, one when it ends."""

import pytest

from pyromq.episodes import Episode, Episodes
from pyromq.testing.manual_clock import ManualClock


def test_only_the_beginning_and_the_end_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    episode = Episode(clock, "broker-a", "messages")
    episode.end()
    episode.begin("the disk is full")
    clock.advance(312_000)
    episode.note("the disk is fuller")
    episode.note(None)
    episode.note(None)
    assert caplog.messages == [
        "broker-a refuses messages: the disk is full",
        "broker-a takes messages again, after 312.0 s; the cause was: the disk is full",
    ]


def test_each_condition_has_an_episode_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    causes: dict[str, str] = {}
    episodes = Episodes(ManualClock(), "broker-a")
    episodes.watch("messages", lambda: causes.get("disk"))
    episodes.watch("all requests", lambda: causes.get("lease"))
    causes["disk"] = "the disk is full"
    episodes.look()
    causes["lease"] = "the lease is over"
    episodes.look()
    assert episodes.causes == ["the disk is full", "the lease is over"]
    del causes["disk"]
    episodes.look()
    assert episodes.causes == ["the lease is over"]
    assert [message.partition(",")[0] for message in caplog.messages] == [
        "broker-a refuses messages: the disk is full",
        "broker-a refuses all requests: the lease is over",
        "broker-a takes messages again",
    ]
