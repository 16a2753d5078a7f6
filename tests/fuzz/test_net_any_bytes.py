"""Whatever arrives, in whatever pieces: answers or the end of the connection, and nothing else."""

import asyncio
import logging

import pytest
from effort import times
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from list_transport import ListTransport

from pyromq.clock import SystemClock
from pyromq.config.settings import NetSettings
from pyromq.net.link import Link
from pyromq.net.routes import Answer, Dispatcher, RequestTable, Route
from pyromq.net.turn import Turn
from pyromq.wire.command import Command, encode
from pyromq.wire.headers.send_headers import SendMessageV2

WELL = st.builds(
    lambda code, opaque, ext, body, serializer: encode(
        Command(code, opaque=opaque, ext=ext, body=body, serializer=serializer)
    ),
    st.sampled_from([10, 310, 9999]),
    st.integers(0, 2**31 - 1),
    st.none() | st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=4),
    st.binary(max_size=50),
    st.sampled_from([0, 1]),
)
#: A whole frame around a header that is anything.
FRAMED = st.builds(
    lambda serializer, header: (
        (4 + len(header)).to_bytes(4, "big") + bytes([serializer]) + len(header).to_bytes(3, "big") + header
    ),
    st.sampled_from([0, 1, 7]),
    st.binary(max_size=60),
)


@pytest.fixture(autouse=True)
def quiet():
    """Warnings are what is expected here; errors would be our own mistakes."""
    log = logging.getLogger("pyromq.net")
    before = log.level
    log.setLevel(logging.ERROR)
    yield
    log.setLevel(before)


async def feed(pieces):
    transport = ListTransport()
    table = RequestTable(
        [
            Route(10, lambda request: Answer(body=request.body)),
            Route(310, lambda request: Answer(), SendMessageV2),
        ]
    )
    link = Link(
        NetSettings(frame_bytes_max=4096),
        turn=Turn(),
        clock=SystemClock(),
        on_request=Dispatcher(table, name="fuzz", requests_under_way_max=4),
        on_end=lambda _: None,
    )
    link.connection_made(transport)
    for piece in pieces:
        if link.closed:
            break
        link.data_received(piece)
    await asyncio.sleep(0)
    return link, transport


@settings(
    max_examples=times(80),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(WELL | FRAMED | st.binary(min_size=1, max_size=40), max_size=8), st.integers(1, 50))
def test_any_bytes_give_answers_or_the_end_of_the_connection(caplog, chunks, piece_bytes):
    stream = b"".join(chunks)
    pieces = [stream[at : at + piece_bytes] for at in range(0, len(stream), piece_bytes)]

    link, transport = asyncio.run(feed(pieces))

    assert all(command.is_response for command in transport.commands())
    assert link.closed == (transport.ended == "closed")
    assert not [record for record in caplog.records if record.exc_info]


@settings(
    max_examples=times(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(WELL, min_size=1, max_size=8), st.integers(1, 50))
def test_every_whole_request_is_answered_once_however_it_is_cut(frames, piece_bytes):
    stream = b"".join(frames)
    pieces = [stream[at : at + piece_bytes] for at in range(0, len(stream), piece_bytes)]

    link, transport = asyncio.run(feed(pieces))

    assert not link.closed
    assert len(transport.commands()) == len(frames)
