"""Sessions of gRPC without a connection, on h2 and on nghttp2: bytes in, events and bytes out."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from http2_frames import (
    ACK,
    CALL_HEADERS,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    PRIORITY,
    SETTINGS,
    WINDOW_UPDATE,
    Answers,
    begun,
    block,
    called,
    frame,
    frames,
    opened,
    prefixed,
    reset,
    said,
    window,
)

from pyromq.errors import ConfigError
from pyromq.kernel import IS_COMPILED, WHY_PURE
from pyromq.net.http2 import grpc_session
from pyromq.net.http2.session_terms import (
    ENDED,
    FAILED,
    MESSAGE,
    OPENED,
    RESET,
    Http2Error,
    SessionLimits,
    percent_decoded,
    percent_encoded,
    timeout_s,
)
from pyromq.net.http2.which_session import describe, session_class, why_plain

PATH = "/pyromq.Test/Echo"
ROOM = 1 << 30

Make = Callable[..., grpc_session.GrpcSession]


@pytest.fixture(params=["h2", "nghttp2"])
def make(request: pytest.FixtureRequest) -> Make:
    if request.param == "h2":
        kind = grpc_session.GrpcSession
    elif IS_COMPILED:
        kind = session_class()
        assert kind is not grpc_session.GrpcSession, "libnghttp2 is missing; `make setup` fetches it"
    else:
        pytest.skip("the pure version runs")

    def made(**limits: int) -> grpc_session.GrpcSession:
        return kind(SessionLimits(**limits))

    return made


def open_call(session: grpc_session.GrpcSession, stream: int = 1) -> None:
    events = session.receive(opened(stream))
    assert [event[:2] for event in events] == [(OPENED, stream)]


def test_a_call_is_opened_said_and_ended(make: Make) -> None:
    session = make()
    events = session.receive(begun() + called(1, b"hello", [*CALL_HEADERS, ("x-a", "1"), ("x-a", "2")]))
    assert [event[0] for event in events] == [OPENED, MESSAGE, ENDED]
    assert events[0][2] == PATH
    assert events[0][3] == {"content-type": "application/grpc", "te": "trailers", "x-a": "2"}
    assert events[1][1:] == (1, b"hello", None)
    session.answer(1, b"world")
    answers = Answers().take(session.take_output(ROOM))
    assert answers.messages(1) == [b"world"]
    assert dict(answers.headers[1]) == {
        ":status": "200",
        "content-type": "application/grpc",
        "grpc-status": "0",
    }
    assert answers.ended == {1}
    assert not answers.resets
    assert session.stream_count == 0


def test_headers_are_looked_up_as_in_a_dictionary(make: Make) -> None:
    session = make()
    more = [("x-a", "1"), ("x-empty", ""), ("x-a", "é"), ("x-ab", "3")]
    headers = session.receive(begun() + opened(1, [*CALL_HEADERS, *more]))[0][3]
    assert [headers.get(name) for name in ("x-a", "x-ab", "x-empty", "x", "é", ":path", "")] == [
        "Ã©",
        "3",
        "",
        *(4 * [None]),
    ]
    assert headers.get("x-b", "4") == "4"
    assert headers["te"] == "trailers"
    with pytest.raises(KeyError):
        headers["x-b"]
    assert "x-empty" in headers
    assert "x-b" not in headers
    assert isinstance(headers, Mapping)
    assert (
        dict(headers)
        == dict(headers.items())
        == {"content-type": "application/grpc", "te": "trailers", "x-a": "Ã©", "x-empty": "", "x-ab": "3"}
    )
    assert list(headers.values()) == [headers[name] for name in headers.keys()]  # noqa: SIM118  it is tested too
    assert len(headers) == 5
    # What came of one call is not the next one's.
    assert "x-a" not in session.receive(opened(3))[0][3]


def test_paths_of_one_length_stay_apart(make: Make) -> None:
    session = make()
    session.receive(begun())
    paths = [f"/pyromq.Test/{word}" for word in ("Echo", "Ohce", "Echo", "x" * 200, "y" * 200, "x" * 232)]
    for number, path in enumerate(paths):
        headers = [(name, path if name == ":path" else value) for name, value in CALL_HEADERS]
        assert session.receive(opened(2 * number + 1, headers))[0][2] == path


def test_bytes_may_come_one_by_one(make: Make) -> None:
    session = make()
    whole = begun() + called(1, b"hello") + called(3, b"") + called(5, bytes(20_000))
    events = [event for byte in whole for event in session.receive(bytes((byte,)))]
    assert events == make().receive(whole)
    assert [event[2] for event in events if event[0] == MESSAGE] == [b"hello", b"", bytes(20_000)]


def test_a_failure_before_any_answer_is_one_block_of_headers(make: Make) -> None:
    session = make()
    session.receive(begun() + called(1, b""))
    session.finish(1, 5, "né 100%")
    output = session.take_output(ROOM)
    assert [kind for kind, *_ in frames(output) if kind in (HEADERS, DATA)] == [HEADERS]
    headers = dict(Answers().take(output).headers[1])
    assert headers["grpc-status"] == "5"
    assert headers["grpc-message"] == "n%C3%A9 100%25"


def test_an_answer_before_the_request_is_whole_tells_the_client_to_stop(make: Make) -> None:
    session = make()
    session.receive(begun())
    open_call(session)
    session.finish(1, 12, "no")
    answers = Answers().take(session.take_output(ROOM))
    assert answers.status(1) == "12"
    assert answers.resets == {1: Http2Error.NO_ERROR}
    assert session.receive(said(1, b"late")) == []
    assert session.error is None


@pytest.mark.parametrize(
    ("change", "status"), [((":method", "GET"), "405"), (("content-type", "text/html"), "415")]
)
def test_what_is_no_call_of_grpc_gets_a_status_of_http(
    make: Make, change: tuple[str, str], status: str
) -> None:
    session = make()
    headers = [change if name == change[0] else (name, value) for name, value in CALL_HEADERS]
    assert session.receive(begun() + opened(1, headers, is_whole=True)) == []
    answers = Answers().take(session.take_output(ROOM))
    assert answers.headers[1] == [(":status", status)]
    assert answers.ended == {1}


@pytest.mark.parametrize(
    ("data", "is_last", "status"),
    [
        (prefixed(b"x", mark=1), True, 13),
        (prefixed(bytes(1_001)), True, 8),
        (b"\0\xff\xff\xff\xff", False, 8),
        (b"\0\0\0\0\x05abc", True, 13),
        (b"\0\0", True, 13),
    ],
)
def test_a_message_that_is_wrong_fails_its_call_alone(
    make: Make, data: bytes, is_last: bool, status: int
) -> None:
    session = make(message_bytes_max=1_000)
    session.receive(begun())
    open_call(session)
    events = session.receive(frame(DATA, END_STREAM if is_last else 0, 1, data))
    assert [event[:3] for event in events] == [(FAILED, 1, status)]
    assert session.error is None
    assert session.partial_bytes == 0
    assert [event[0] for event in session.receive(called(3, b"x"))] == [OPENED, MESSAGE, ENDED]


def test_parts_of_messages_are_bounded_on_a_whole_connection(make: Make) -> None:
    session = make(message_bytes_max=1_000)
    session.receive(begun())
    for stream in (1, 3):
        open_call(session, stream)
    assert session.receive(frame(DATA, 0, 1, prefixed(bytes(900))[:600])) == []
    assert session.partial_bytes == 600
    events = session.receive(frame(DATA, 0, 3, prefixed(bytes(900))[:600]))
    assert [event[:3] for event in events] == [(FAILED, 3, 8)]
    assert session.partial_bytes == 600
    assert session.receive(reset(1)) == [(RESET, 1, 8, True)]
    assert session.partial_bytes == 0


def test_a_reset_stream_is_told_and_forgotten(make: Make) -> None:
    session = make()
    session.receive(begun())
    open_call(session)
    session.send(1, bytes(100_000))
    session.take_output(ROOM)
    assert session.queued_bytes > 0
    assert session.receive(reset(1)) == [(RESET, 1, 8, True)]
    assert (session.stream_count, session.queued_bytes) == (0, 0)
    session.send(1, b"late")
    session.finish(1, 0, "")
    assert session.take_output(ROOM) == b""


def test_windows_of_the_client_are_kept(make: Make) -> None:
    """The connection has 65,535 bytes, and so has each stream; what is over waits."""
    session = make()
    session.receive(begun())
    for stream in (1, 3):
        session.receive(called(stream, b""))
        session.answer(stream, bytes(50_000))
    answers = Answers().take(session.take_output(ROOM))
    assert sum(map(len, answers.data.values())) == 65_535
    assert session.queued_bytes == 2 * 50_005 - 65_535
    assert not session.wants_output
    session.receive(window(0, 100_000))
    assert session.wants_output
    answers.take(session.take_output(ROOM))
    assert [answers.messages(stream) for stream in (1, 3)] == [[bytes(50_000)]] * 2
    assert answers.ended == {1, 3}
    assert session.queued_bytes == 0


def test_a_stream_whose_window_is_shut_does_not_hold_up_others(make: Make) -> None:
    session = make()
    session.receive(begun([(4, 10)]) + window(0, 1_000_000))
    for stream in (1, 3):
        session.receive(called(stream, b""))
    session.answer(1, bytes(500))
    session.receive(window(3, 1_000))
    session.answer(3, bytes(500))
    answers = Answers().take(session.take_output(ROOM))
    assert len(answers.data[1]) == 10
    assert answers.messages(3) == [bytes(500)]
    assert session.unsent(1) == 495
    session.receive(frame(SETTINGS, payload=b"\0\x04\0\0\x10\0"))
    assert answers.take(session.take_output(ROOM)).messages(1) == [bytes(500)]


def test_output_is_made_in_portions(make: Make) -> None:
    session = make()
    session.receive(begun([(4, 1 << 24)]) + window(0, 1 << 24) + called(1, b""))
    session.answer(1, bytes(1_000_000))
    answers, portions = Answers(), 0
    while session.wants_output:
        output = session.take_output(100_000)
        assert len(output) < 120_000
        answers.take(output)
        portions += 1
    assert portions >= 9
    assert answers.messages(1) == [bytes(1_000_000)]


def test_what_arrives_is_given_back_to_the_windows(make: Make) -> None:
    session = make(window_bytes=100_000)
    answers = Answers().take(session.take_output(ROOM))
    session.receive(begun())
    open_call(session)
    for _ in range(20):
        session.receive(frame(DATA, 0, 1, bytes(16_000)))
        answers.take(session.take_output(ROOM))
    assert session.error is None
    assert answers.window_bytes > 300_000


def test_pings_are_answered(make: Make) -> None:
    session = make()
    session.receive(begun() + 3 * frame(PING, payload=bytes(8)))
    assert Answers().take(session.take_output(ROOM)).pongs == 3


def test_a_goaway_of_the_client_ends_no_call(make: Make) -> None:
    session = make()
    session.receive(begun() + called(1, b"x") + frame(GOAWAY, payload=bytes(8)))
    assert session.error is None
    session.answer(1, b"y")
    assert Answers().take(session.take_output(ROOM)).messages(1) == [b"y"]


def test_after_a_goaway_of_ours_calls_end_and_none_begins(make: Make) -> None:
    session = make()
    session.receive(begun() + called(1, b"x"))
    session.shut_down()
    session.answer(1, b"y")
    answers = Answers().take(session.take_output(ROOM))
    assert answers.goaway == Http2Error.NO_ERROR
    assert answers.messages(1) == [b"y"]
    assert session.receive(called(3, b"z")) == []
    assert answers.take(session.take_output(ROOM)).resets == {3: Http2Error.REFUSED_STREAM}


def test_trailers_of_the_client_end_its_request(make: Make) -> None:
    session = make()
    session.receive(begun())
    open_call(session)
    trailers = frame(HEADERS, END_HEADERS | END_STREAM, 1, block([("x-late", "1")]))
    events = session.receive(said(1, b"x", is_last=False) + trailers)
    assert [event[0] for event in events] == [MESSAGE, ENDED]


# What a peer may not do ------------------------------------------------------------------------------------


def ends(session: grpc_session.GrpcSession, data: bytes) -> str:
    """Return why a session ended after these bytes."""
    session.receive(data)
    answers = Answers().take(session.take_output(ROOM))
    assert session.error, "it goes on"
    assert answers.goaway, "the client is not told"
    assert session.receive(called(901, b"x")) == []
    return session.error


def test_an_error_ends_a_connection_that_has_answers_to_send(make: Make) -> None:
    session = make()
    session.receive(begun() + called(1, b"x"))
    session.answer(1, bytes(10_000))
    session.receive(called(3, b"x") + frame(DATA, 0, 0, b"of no stream"))
    session.answer(3, b"y")
    session.ping()
    assert Answers().take(session.take_output(ROOM)).goaway == Http2Error.PROTOCOL_ERROR
    assert session.error
    assert not session.wants_output


def test_what_does_not_begin_as_http2_is_refused(make: Make) -> None:
    for first in (
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        b"\0\0\0\x40\0\0\0\x10{}",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r!",
    ):
        session = make()
        session.receive(first)
        assert session.error


def test_headers_over_the_limit_end_the_connection(make: Make) -> None:
    fits = [*CALL_HEADERS, ("x", "y" * 7_000)]
    session = make()
    assert session.receive(begun() + called(1, b"", fits))[0][0] == OPENED
    assert ends(make(), begun() + opened(1, [*CALL_HEADERS, ("x", "y" * 9_000)]))


def test_a_flood_of_continuations_ends_the_connection(make: Make) -> None:
    """CVE-2024-27316."""
    flood = frame(HEADERS, 0, 1, block()) + 20 * frame(CONTINUATION, 0, 1, block([("a", "b")]))
    assert "CONTINUATION" in ends(make(), begun() + flood)


def test_headers_may_come_in_pieces(make: Make) -> None:
    data = block()
    cut = frame(HEADERS, END_STREAM, 1, data[:20]) + frame(CONTINUATION, END_HEADERS, 1, data[20:])
    assert [event[0] for event in make().receive(begun() + cut)] == [OPENED, ENDED]


@pytest.mark.parametrize(
    ("name", "flood"),
    [
        ("PING", 501 * frame(PING, payload=bytes(8))),
        ("ACK", 1_100 * frame(PING, ACK, payload=bytes(8))),
        ("SETTINGS", 11 * frame(SETTINGS)),
        ("PRIORITY", 1_100 * frame(PRIORITY, 0, 1, bytes(4) + b"\x10")),
        ("WINDOW_UPDATE", 1_100 * window(0, 1)),
        ("empty frames", 101 * frame(DATA, 0, 1)),
        ("RST_STREAM", 1_100 * reset(1)),
    ],
)
def test_floods_end_the_connection(make: Make, name: str, flood: bytes) -> None:
    session = make()
    session.receive(begun())
    open_call(session)
    assert name in ends(session, flood)


def test_settings_are_bounded_over_the_life_of_a_connection(make: Make) -> None:
    session = make()
    session.receive(begun())
    for _ in range(200):
        session.receive(frame(SETTINGS))
        session.take_output(ROOM)
    assert session.error == "a flood of SETTINGS"


def test_a_busy_connection_may_ping_and_open_windows(make: Make) -> None:
    """As gRPC's clients do that measure the line: a PING and windows for each answer."""
    session = make()
    session.receive(begun())
    for number in range(2_000):
        stream = 2 * number + 1
        session.receive(
            called(stream, b"x") + frame(PING, payload=bytes(8)) + window(0, 100) + window(0, 100)
        )
        session.answer(stream, b"y")
        session.take_output(ROOM)
    assert session.error is None


def test_streams_over_the_limit_are_refused(make: Make) -> None:
    session = make(streams_max=3)
    session.receive(begun() + frame(SETTINGS, ACK))
    session.take_output(ROOM)
    events = session.receive(b"".join(opened(stream) for stream in (1, 3, 5, 7)))
    assert sum(1 for event in events if event[0] == OPENED) <= 3
    answers = Answers().take(session.take_output(ROOM))
    assert session.stream_count <= 3
    assert session.error or 7 in answers.resets


def test_windows_that_overflow_are_refused(make: Make) -> None:
    assert ends(make(), begun() + window(0, 0x7FFFFFFF) + window(0, 0x7FFFFFFF))
    session = make()
    session.receive(begun())
    open_call(session)
    session.receive(window(1, 0x7FFFFFFF))
    answers = Answers().take(session.take_output(ROOM))
    assert session.error or answers.resets == {1: Http2Error.FLOW_CONTROL_ERROR}


def test_more_than_the_window_allows_is_refused(make: Make) -> None:
    session = make(window_bytes=65_535)
    session.receive(begun())
    open_call(session)
    # One call of `receive`: nothing is given back before it is taken.
    session.receive(frame(DATA, 0, 1, bytes(16_384)))
    assert session.error is None
    assert ends(make(), begun() + frame(DATA, 0, 1, b"x"))


def test_a_frame_that_is_too_long_ends_the_connection(make: Make) -> None:
    assert ends(make(), begun() + frame(DATA, 0, 1, bytes(16_385)))


def test_frames_of_no_known_kind_are_passed_over(make: Make) -> None:
    session = make()
    session.receive(begun() + frame(0xBE, 0xEF, 0, b"grease") + called(1, b"x"))
    assert session.error is None
    assert session.stream_count == 1


def test_a_peer_does_not_decide_how_much_is_remembered_for_it(make: Make) -> None:
    session = make()
    session.receive(begun([(1, 1 << 30)]))
    for number in range(300):
        stream = 2 * number + 1
        session.receive(called(stream, b""))
        session.finish(stream, 5, f"text {number} " + "x" * 500)
        session.take_output(ROOM)
    assert session.error is None
    if isinstance(session, grpc_session.GrpcSession):
        table = session._h2.encoder.header_table
        assert table.maxsize <= 4_096


def test_window_update_of_a_stream_that_ended_is_passed_over(make: Make) -> None:
    session = make()
    session.receive(begun() + called(1, b"x"))
    session.answer(1, b"y")
    session.take_output(ROOM)
    session.receive(frame(WINDOW_UPDATE, 0, 1, (100).to_bytes(4, "big")) + reset(1))
    assert session.error is None
    assert [event[0] for event in session.receive(called(3, b"x"))] == [OPENED, MESSAGE, ENDED]


# Texts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "plain", "100%", "zwölf\r\n", "\x00\x7f", "日本"])
def test_texts_survive_the_header(text: str) -> None:
    encoded = percent_encoded(text)
    assert all(0x20 <= byte < 0x7F for byte in encoded)
    assert percent_decoded(encoded) == text


def test_a_long_text_is_cut() -> None:
    assert len(percent_encoded("x" * 100_000)) < 2_000


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("1H", 3600.0), ("2M", 120.0), ("30S", 30.0), ("1500m", 1.5), ("0n", 0.0), ("99999999S", 99999999.0)],
)
def test_timeouts_are_read(value: str, seconds: float) -> None:
    assert timeout_s(value) == pytest.approx(seconds)


@pytest.mark.parametrize("value", ["", "S", "5", "-1S", "123456789S", "1s", "1 S", "٣S", "1.5S"])
def test_what_is_no_timeout_is_not_read(value: str) -> None:
    assert timeout_s(value) is None


# Which one ------------------------------------------------------------------------------------------------


def test_without_nghttp2_there_is_h2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyromq._kernel.http2.sessions", None)
    assert session_class() is grpc_session.GrpcSession
    assert "h2" in describe()
    assert why_plain() == WHY_PURE or "apt-get install libnghttp2-14" in (why_plain() or "")


def test_without_both_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyromq._kernel.http2.sessions", None)
    monkeypatch.setitem(sys.modules, "pyromq.net.http2.grpc_session", None)
    with pytest.raises(ConfigError, match=r"pip install 'pyromq\[grpc\]'"):
        session_class()
    assert describe().startswith("no gRPC")


@pytest.mark.skipif(not IS_COMPILED, reason="the pure version runs")
def test_nghttp2_is_taken_where_it_is() -> None:
    assert describe() == "gRPC on nghttp2"


@pytest.mark.skipif(not IS_COMPILED or not sys.platform.startswith("linux"), reason="of nghttp2, on Linux")
def test_an_idle_session_has_few_pages() -> None:
    kind, count = session_class(), 500
    sessions = [kind(SessionLimits())]
    before = resident_bytes()
    for _ in range(count):
        session = kind(SessionLimits())
        assert [event[0] for event in session.receive(begun() + opened(1))] == [OPENED]
        session.send(1, bytes(200))
        session.take_output(ROOM)
        sessions.append(session)
    # 8.1: two pages of its parts, and what is its own; 13.1 KiB where malloc has all of it.
    assert (resident_bytes() - before) / count < 10.5 * 1024


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(not IS_COMPILED, reason="of nghttp2")
def test_sessions_share_no_memory() -> None:
    kind = session_class()
    sessions = [kind(SessionLimits()) for _ in range(20)]
    for number, session in enumerate(sessions):
        session.receive(begun() + called(1, b"asked") + window(0, 1 << 20) + window(1, 1 << 20))
        session.answer(1, bytes([number]) * 60_000)
    outputs = [b""] * len(sessions)
    for turn in range(12):
        # Each is in the middle of its answer while the others write theirs, and some end meanwhile.
        del sessions[20 - turn :]
        for number, session in enumerate(sessions):
            outputs[number] += session.take_output(1)
    for number, _ in enumerate(sessions):
        outputs[number] += sessions[number].take_output(ROOM)
        assert Answers().take(outputs[number]).messages(1) == [bytes([number]) * 60_000]
