"""A name server and broker on a real socket, whose answers to sends a test chooses."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pyromq.codes import CommandFlag, RequestCode, ResponseCode
from pyromq.wire.bodies.route_bodies import BrokerData, BrokerQueues, TopicRoute, encode_route
from pyromq.wire.command import Command, CommandReader, encode

QUEUES = 4
#: What a played broker does with a send: bytes to write, or None to end the connection.
Played = bytes | None
Play = Callable[[Command], Played]


def answer_to(
    send: Command, code: int = ResponseCode.SUCCESS, remark: str | None = None, **changes: str
) -> bytes:
    """Return the frame that answers a send, as 4.9.8 writes it."""
    ext = {
        "queueId": (send.ext or {})["e"],
        "TRACE_ON": "true",
        "MSG_REGION": "DefaultRegion",
        "msgId": "7F00000100002A9F0000000000000000",
        "queueOffset": "0",
    }
    return encode(
        Command(code, opaque=send.opaque, flag=CommandFlag.RESPONSE, remark=remark, ext={**ext, **changes})
    )


class PlayedBroker:
    """Answers on threads. `plays` says what is done with the next sends, in order; all others are stored."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.plays: list[Play] = []
        #: The sends that came, and on which connection.
        self.sends: list[tuple[Command, int]] = []
        self._lock = threading.Lock()
        self._connections: list[socket.socket] = []
        self._is_closed = False
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_closed = True
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(10)
        self.end_connections()

    def end_connections(self) -> None:
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(
                target=self._serve, args=(connection, len(self._connections)), daemon=True
            ).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        reader = CommandReader()
        with connection, suppress(OSError):
            while data := connection.recv(1 << 16):
                reader.feed(data)
                while (command := reader.next_command()) is not None:
                    answer = self._answer(command, number)
                    if answer is None:
                        return
                    connection.sendall(answer)

    def _answer(self, command: Command, number: int) -> Played:
        if command.code == RequestCode.SEND_MESSAGE_V2:
            with self._lock:
                self.sends.append((command, number))
                play = self.plays.pop(0) if self.plays else answer_to
            return play(command)
        body = b""
        if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            body = encode_route(self._route(), quoted_keys=True)
        return encode(
            Command(ResponseCode.SUCCESS, opaque=command.opaque, flag=CommandFlag.RESPONSE, body=body)
        )

    def _route(self) -> TopicRoute:
        return TopicRoute(
            queue_datas=[
                BrokerQueues(broker_name="a", read_queue_nums=QUEUES, write_queue_nums=QUEUES, perm=6)
            ],
            broker_datas=[BrokerData(cluster="c", broker_name="a", broker_addrs={0: self.address})],
        )


@contextmanager
def played_broker() -> Iterator[PlayedBroker]:
    broker = PlayedBroker()
    try:
        yield broker
    finally:
        broker.close()
