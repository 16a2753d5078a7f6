"""A link against a transport that is a list: what is written when, and when it reads no further."""

import asyncio

import pytest
from list_transport import ListTransport

from pyromq.config.settings import NetSettings
from pyromq.errors import ConnectionLost, RequestTimeout
from pyromq.net.link import OUTPUT_FACTOR_MAX, TURN_BYTES_MAX, Link
from pyromq.net.turn import Turn
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.command import Command, encode


class Setting:
    def __init__(self, *, may_leave=None, **limits):
        self.clock = ManualClock()
        turn = Turn(may_leave, monotonic=self.clock.monotonic)
        self.requests = []
        self.ended = []
        self.transport = ListTransport()
        self.link = Link(
            NetSettings(**limits),
            turn=turn,
            clock=self.clock,
            on_request=self.take,
            on_end=self.ended.append,
        )
        self.link.connection_made(self.transport)

    def take(self, link, command):
        self.requests.append(command)
        link.send(Command(0, flag=1, opaque=command.opaque, body=command.body))


async def turn_of_the_loop():
    await asyncio.sleep(0)


async def test_all_answers_of_a_turn_are_one_write():
    setting = Setting()

    setting.link.data_received(b"".join(encode(Command(10, opaque=n)) for n in range(3)))
    setting.link.data_received(encode(Command(10, opaque=3)))
    written_before_the_end = list(setting.transport.writes)
    await turn_of_the_loop()

    assert written_before_the_end == []
    assert len(setting.transport.writes) == 1
    assert [command.opaque for command in setting.transport.commands()] == [0, 1, 2, 3]


async def test_the_hook_runs_once_before_the_answers_of_a_turn_leave():
    seen = []
    setting = Setting(may_leave=lambda: seen.append(len(setting.transport.writes)) is None)

    setting.link.data_received(encode(Command(10)) + encode(Command(10)))
    await turn_of_the_loop()

    assert seen == [0]


async def test_answers_that_do_not_hold_any_more_never_leave():
    setting = Setting(may_leave=lambda: False)

    setting.link.data_received(encode(Command(10)))
    await turn_of_the_loop()

    assert setting.transport.writes == []
    assert setting.link.closed


async def test_a_frame_may_come_in_pieces():
    setting = Setting()
    frame = encode(Command(10, opaque=7, body=b"hello"))

    for at in range(len(frame)):
        setting.link.data_received(frame[at : at + 1])
    await turn_of_the_loop()

    assert [command.body for command in setting.requests] == [b"hello"]


async def test_a_connection_that_had_its_share_of_a_turn_waits_for_the_next():
    setting = Setting()

    setting.link.data_received(encode(Command(10, body=bytes(TURN_BYTES_MAX))))
    was_reading = setting.transport.is_reading
    await turn_of_the_loop()

    assert not was_reading
    assert setting.transport.is_reading


async def test_frames_wait_while_too_much_output_is_collected_and_are_handled_later():
    setting = Setting(write_buffer_high_water_mark=1000, write_buffer_low_water_mark=100)

    setting.link.data_received(b"".join(encode(Command(10, opaque=n, body=bytes(600))) for n in range(5)))
    handled_at_once = len(setting.requests)
    was_reading = setting.transport.is_reading
    for _ in range(5):
        await turn_of_the_loop()

    assert (handled_at_once, was_reading) == (2, False)
    assert len(setting.requests) == 5
    assert setting.transport.is_reading


async def test_a_peer_that_does_not_read_is_not_read():
    setting = Setting()
    setting.link.pause_writing()

    setting.link.data_received(encode(Command(10)))
    await turn_of_the_loop()
    handled_while_stuck = len(setting.requests)
    was_reading = setting.transport.is_reading
    setting.link.resume_writing()
    for _ in range(3):
        await turn_of_the_loop()

    assert (handled_while_stuck, was_reading) == (0, False)
    assert len(setting.requests) == 1
    assert setting.transport.is_reading


async def test_a_peer_that_never_reads_loses_its_connection(caplog):
    setting = Setting(write_buffer_high_water_mark=10, write_buffer_low_water_mark=5)
    setting.transport.stuck = 10 * OUTPUT_FACTOR_MAX + 1
    setting.link.pause_writing()

    setting.link.send(Command(40))
    await turn_of_the_loop()

    assert setting.transport.ended == "aborted"
    assert [record.name for record in caplog.records] == ["pyromq.net"]


async def test_answers_find_their_requests_in_any_order():
    setting = Setting()
    first = asyncio.ensure_future(setting.link.request(Command(1), 5))
    second = asyncio.ensure_future(setting.link.request(Command(2), 5))
    await turn_of_the_loop()
    await turn_of_the_loop()
    sent = setting.transport.commands()

    setting.link.data_received(encode(Command(0, flag=1, opaque=sent[1].opaque, body=b"second")))
    setting.link.data_received(encode(Command(0, flag=1, opaque=sent[0].opaque, body=b"first")))

    assert (await first).body == b"first"
    assert (await second).body == b"second"


async def test_an_answer_that_nobody_waits_for_is_dropped():
    setting = Setting()

    setting.link.data_received(encode(Command(0, flag=1, opaque=99)))

    assert setting.requests == []
    assert not setting.link.closed


async def test_an_answer_that_does_not_come_is_a_timeout():
    setting = Setting()

    with pytest.raises(RequestTimeout, match=r"127\.0\.0\.1:5000"):
        await setting.link.request(Command(1), 0.01)


async def test_when_the_connection_ends_what_waits_is_given_up():
    setting = Setting()
    request = asyncio.ensure_future(setting.link.request(Command(1), 5))
    held = asyncio.get_running_loop().create_future()
    setting.link.under_way.add(held)
    told = []
    setting.link.on_close(told.append)
    await turn_of_the_loop()

    setting.link.connection_lost(None)

    with pytest.raises(ConnectionLost):
        await request
    assert held.cancelled()
    assert told == [setting.link] == setting.ended


async def test_a_closed_link_takes_no_request_and_drops_what_is_sent():
    setting = Setting()
    setting.link.close()

    setting.link.send(Command(1))
    await turn_of_the_loop()

    assert setting.transport.writes == []
    with pytest.raises(ConnectionLost):
        await setting.link.request(Command(1), 1)


async def test_closing_writes_what_was_sent_before():
    setting = Setting()

    setting.link.send(Command(1, opaque=5))
    setting.link.close()

    assert [command.opaque for command in setting.transport.commands()] == [5]
    assert setting.transport.ended == "closed"


async def test_whoever_asks_late_is_told_of_the_end_at_once():
    setting = Setting()
    setting.link.connection_lost(None)
    told = []

    setting.link.on_close(told.append)

    assert told == [setting.link]


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x7f\xff\xff\xff\x00\x00\x00\x00",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x08\x00\xff\xff\xff",
        b"\x00\x00\x00\x08\x00\x00\x00\x04nope",
        b"\x00\x00\x00\x08\x09\x00\x00\x04{}{}",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
    ],
    ids=["huge", "negative", "header beyond frame", "not JSON", "no such serializer", "http", "tls"],
)
async def test_bytes_that_are_no_command_end_the_connection_with_one_log_line(nonsense, caplog):
    setting = Setting()

    setting.link.data_received(encode(Command(10, opaque=1)) + nonsense if nonsense[0] != 0x16 else nonsense)
    await turn_of_the_loop()

    assert setting.transport.ended == "closed"
    assert len(setting.transport.commands()) == (nonsense[0] != 0x16), "what came before is answered"
    assert [record.name for record in caplog.records] == ["pyromq.net"]
    assert "127.0.0.1:5000" in caplog.records[0].message


async def test_a_link_knows_how_long_nothing_moved():
    setting = Setting()

    setting.clock.advance(60_000)
    idle_before = setting.link.idle_s()
    setting.link.data_received(encode(Command(10)))

    assert idle_before == pytest.approx(60)
    assert setting.link.idle_s() == pytest.approx(0)
