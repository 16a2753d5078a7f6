"""Requests over plain sockets, from threads and forked processes."""

import contextlib
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pyromq.config.settings import NetSettings
from pyromq.errors import ClientClosed, ConnectFailed, ConnectionLost, RequestTimeout
from pyromq.net.blocking import BlockingLinks
from pyromq.testing.waiting import eventually
from pyromq.wire.command import Command, CommandReader, encode

ECHO, SILENT, HANG_UP, NONSENSE, ASK_BACK, LATE = range(10, 16)


class ThreadServer:
    """A server of threads, so that nothing of ours is on the other end."""

    def __init__(self):
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listening.getsockname()[1]}"
        self.connections = []
        self.received = []
        self.threads = [threading.Thread(target=self.accept)]
        self.threads[0].start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listening.accept()
                self.connections.append(connection)
                thread = threading.Thread(target=self.serve, args=(connection,))
                self.threads.append(thread)
                thread.start()

    def serve(self, connection):
        reader = CommandReader()
        with contextlib.suppress(OSError):
            while data := connection.recv(65536):
                reader.feed(data)
                while (command := reader.next_command()) is not None:
                    self.received.append(command)
                    self.answer(connection, command)

    def answer(self, connection, command):
        answer = encode(Command(0, flag=1, opaque=command.opaque, body=command.body))
        if command.is_response or command.is_oneway or command.code == SILENT:
            return
        if command.code == HANG_UP:
            connection.shutdown(socket.SHUT_RDWR)
        elif command.code == NONSENSE:
            connection.sendall(b"\xff" * 100)
        elif command.code == ASK_BACK:
            connection.sendall(encode(Command(40, flag=2)) + encode(Command(307, opaque=77)) + answer)
        else:
            connection.sendall(answer)

    def close(self):
        with contextlib.suppress(OSError):
            self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        for thread in self.threads:
            thread.join()


@pytest.fixture
def server():
    server = ThreadServer()
    yield server
    server.close()


@pytest.fixture
def links():
    links = BlockingLinks(NetSettings())
    yield links
    links.close()


def test_requests_one_after_another_share_a_connection(server, links):
    bodies = [links.request(server.address, Command(ECHO, body=b"%d" % n), 5).body for n in range(3)]

    assert bodies == [b"0", b"1", b"2"]
    assert len(server.connections) == 1


def test_threads_do_not_take_each_others_answers(server, links):
    def ask(number):
        return links.request(server.address, Command(ECHO, body=b"%d" % number), 5).body

    with ThreadPoolExecutor(8) as pool:
        bodies = list(pool.map(ask, range(200)))

    assert bodies == [b"%d" % number for number in range(200)]
    assert len(server.connections) <= 8


def test_a_large_body_comes_back_whole(server, links):
    body = os.urandom(3_000_000)

    assert links.request(server.address, Command(ECHO, body=body), 5).body == body


def test_large_answers_of_different_sizes_come_one_behind_the_other(server, links):
    bodies = [bytes([number]) * size for number, size in enumerate([900_000, 40, 700_000, 1_300_000, 0])]

    answers = links.request_all(server.address, [Command(ECHO, body=body) for body in bodies], 10)

    assert [answer.body for answer in answers] == bodies


def test_an_answer_that_does_not_come_is_a_timeout_and_the_socket_is_not_used_again(server, links):
    links.request(server.address, Command(ECHO), 5)  # connected: the time is for the answer alone
    with pytest.raises(RequestTimeout, match=server.address):
        links.request(server.address, Command(SILENT), 0.05)
    links.request(server.address, Command(ECHO), 5)

    assert len(server.connections) == 2


def test_a_server_that_hangs_up_is_a_lost_connection(server, links):
    with pytest.raises(ConnectionLost, match=server.address):
        links.request(server.address, Command(HANG_UP), 5)


def test_a_server_that_sends_nonsense_is_a_lost_connection(server, links):
    with pytest.raises(ConnectionLost, match="no command"):
        links.request(server.address, Command(NONSENSE), 5)


def test_an_address_where_nobody_listens_is_named(refusing_address, links):
    with pytest.raises(ConnectFailed, match=refusing_address):
        links.request(refusing_address, Command(ECHO), 5)


def test_what_a_server_asks_meanwhile_is_turned_down(server, links):
    answer = links.request(server.address, Command(ASK_BACK, body=b"x"), 5)

    turned_down = eventually(lambda: [command for command in server.received if command.is_response])
    assert answer.body == b"x"
    assert [(command.code, command.opaque) for command in turned_down] == [(3, 77)]


def test_a_connection_that_the_server_closed_meanwhile_is_replaced(server, links):
    links.request(server.address, Command(ECHO), 5)
    server.connections[0].shutdown(socket.SHUT_RDWR)

    def asks_well():
        return links.request(server.address, Command(ECHO, body=b"again"), 5).body == b"again"

    # The shutdown may arrive in the middle of the first try.
    try:
        assert asks_well()
    except ConnectionLost:
        assert asks_well()


def test_a_oneway_request_waits_for_nothing(server, links):
    links.oneway(server.address, Command(ECHO, body=b"gone"), 5)

    (command,) = eventually(lambda: list(server.received))
    assert command.is_oneway


def test_closed_links_refuse_to_work(server, links):
    links.request(server.address, Command(ECHO), 5)
    links.close()

    with pytest.raises(ClientClosed):
        links.request(server.address, Command(ECHO), 5)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_opens_its_own_connection(server, links):
    links.request(server.address, Command(ECHO), 5)

    child = os.fork()
    if child == 0:
        good = False
        with contextlib.suppress(BaseException):
            good = links.request(server.address, Command(ECHO, body=b"child"), 5).body == b"child"
        os._exit(0 if good else 1)
    _, status = os.waitpid(child, 0)
    parent = links.request(server.address, Command(ECHO, body=b"parent"), 5)

    assert os.waitstatus_to_exitcode(status) == 0
    assert parent.body == b"parent"
    assert len(server.connections) == 2
