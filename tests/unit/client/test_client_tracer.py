"""Who takes notes for traces: never waits, never fails, and says what was lost."""

import threading

import pytest

from pyromq.client.tracing import trace
from pyromq.client.tracing.trace import (
    CONSUME,
    PRODUCE,
    Tracer,
    TraceSends,
    traced,
    traced_consumer,
    tracer_of,
)
from pyromq.client.tracing.trace_format import TraceEntry, TraceType
from pyromq.config.settings import ClientSettings

#: Nobody listens there.
NOBODY = "127.0.0.1:1"
TRACED = ClientSettings(enable_msg_trace=True)
NOTE = TraceEntry(type=TraceType.PUB, message_id="ID")


def own_threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("pyromq-trace")]


def test_nobody_takes_notes_unless_it_is_wanted() -> None:
    assert tracer_of("senders", NOBODY, ClientSettings(), role=PRODUCE) is None
    assert traced((), None) == ()
    assert traced_consumer((), None, ClientSettings()) == ()


def test_a_client_that_notes_nothing_has_no_thread() -> None:
    tracer = tracer_of("senders", NOBODY, TRACED, role=PRODUCE)
    assert tracer is not None

    assert [type(hook) for hook in traced((), tracer)] == [TraceSends]
    assert len(traced_consumer((), tracer_of("readers", NOBODY, TRACED, role=CONSUME), TRACED)) == 1
    tracer.close()

    assert own_threads() == []


def test_notes_that_cannot_be_sent_are_lost_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trace, "SEND_TIMEOUT_MS", 200)
    tracer = Tracer("senders", NOBODY, TRACED, role=PRODUCE)

    tracer.add(NOTE)
    tracer.add(NOTE)
    tracer.close()

    assert tracer.dropped_count == 2
    assert "traces of senders cannot be sent" in caplog.text
    assert own_threads() == []


def test_notes_without_room_are_dropped_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "WAITING_MAX", 0)
    tracer = Tracer("senders", NOBODY, TRACED, role=PRODUCE)

    tracer.add(NOTE)

    assert tracer.dropped_count == 1
    assert own_threads() == []


def test_notes_after_the_end_are_dropped() -> None:
    tracer = Tracer("senders", NOBODY, TRACED, role=PRODUCE)
    tracer.close()

    tracer.add(NOTE)

    assert tracer.dropped_count == 1
