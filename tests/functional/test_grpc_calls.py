"""Calls of gRPC on our own loop, made by grpcio, a client that is not ours."""

import os
import queue
import socket
import ssl
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_stage import CALL_S, SERVICE, GrpcStage, both_ways, grpc_stage, plain_channel, stream, unary
from http2_frames import CALL_HEADERS, begun, called

from pyromq.config.choices import TlsServerMode
from pyromq.config.settings import NetSettings
from pyromq.net.http2.grpc_session import GrpcSession
from pyromq.net.http2.own_certificate import FILE_NAME
from pyromq.net.http2.session_terms import SessionLimits
from pyromq.testing.waiting import eventually

MIB = 1024 * 1024


@pytest.fixture(scope="module", params=["h2", "the one that is chosen"])
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcStage]:
    made = GrpcSession if request.param == "h2" else None
    with grpc_stage(tmp_path_factory.mktemp("grpc"), make_session=made) as running:
        yield running


@pytest.fixture(scope="module")
def channel(stage: GrpcStage) -> Iterator[grpc.Channel]:
    with plain_channel(
        stage, max_receive_message_length=64 * MIB, max_send_message_length=64 * MIB
    ) as channel:
        yield channel


def failure(call: object) -> tuple[grpc.StatusCode, str]:
    """Return how a call failed that must fail."""
    with pytest.raises(grpc.RpcError) as caught:
        call()  # type: ignore[operator]
    return caught.value.code(), caught.value.details()


@pytest.mark.parametrize("name", ["Echo", "Later"])
@pytest.mark.parametrize("size", [0, 1, 16_384, 70_000, 5 * MIB])
def test_a_request_of_any_size_gets_its_answer(channel: grpc.Channel, name: str, size: int) -> None:
    request = os.urandom(size)
    assert unary(channel, name)(request, timeout=CALL_S) == request


def test_many_calls_at_a_time_get_their_own_answers(channel: grpc.Channel) -> None:
    futures = [unary(channel, "Later").future(b"%d" % number, timeout=CALL_S) for number in range(300)]
    assert [future.result() for future in futures] == [b"%d" % number for number in range(300)]


def test_a_handler_sees_headers_peer_and_deadline(stage: GrpcStage, channel: grpc.Channel) -> None:
    metadata = [("x-mq-client-id", "first"), ("x-mq-client-id", "me@1@0"), ("blob-bin", b"\x00\xff")]
    unary(channel, "Echo")(b"", metadata=metadata, timeout=CALL_S)
    call = stage.service.last
    assert call is not None
    assert call.metadata["x-mq-client-id"] == "me@1@0"
    assert call.metadata["blob-bin"].rstrip("=") == "AP8"
    assert not [name for name in call.metadata if name.startswith(":")]
    assert call.method == "/pyromq.Test/Echo"
    assert call.peer.startswith("127.0.0.1:")
    assert len(call.peer_host_bytes) == 8
    assert call.deadline is not None
    unary(channel, "Echo")(b"")
    assert stage.service.last is not None
    assert stage.service.last.deadline is None


@pytest.mark.parametrize("status", [3, 8, 14, 16])
def test_a_failed_call_has_its_status_and_its_text(channel: grpc.Channel, status: int) -> None:
    code, text = failure(lambda: unary(channel, "Fail")(b"%d" % status, timeout=CALL_S))
    assert code.value[0] == status
    assert text == "wörks 100%\nnot"


def test_a_mistake_in_a_handler_ends_its_call_alone(
    channel: grpc.Channel, caplog: pytest.LogCaptureFixture
) -> None:
    code, text = failure(lambda: unary(channel, "Break")(b"", timeout=CALL_S))
    assert code is grpc.StatusCode.INTERNAL
    assert "ValueError: a mistake" in text
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert unary(channel, "Echo")(b"x", timeout=CALL_S) == b"x"


def test_an_unknown_method_is_unimplemented(channel: grpc.Channel) -> None:
    code, text = failure(lambda: unary(channel, "Nothing")(b"", timeout=CALL_S))
    assert code is grpc.StatusCode.UNIMPLEMENTED
    assert "/pyromq.Test/Nothing" in text


def test_compressed_requests_are_refused(channel: grpc.Channel) -> None:
    code, text = failure(
        lambda: unary(channel, "Echo")(bytes(2_000), timeout=CALL_S, compression=grpc.Compression.Gzip)
    )
    assert code is grpc.StatusCode.UNIMPLEMENTED
    assert "gzip" in text


def test_a_stream_of_answers_comes_whole_and_in_order(channel: grpc.Channel) -> None:
    answers = list(stream(channel, "Count")(b"2000 700", timeout=CALL_S))
    assert [int.from_bytes(answer[:4], "big") for answer in answers] == list(range(2000))


def test_messages_go_both_ways_until_the_client_has_no_more(stage: GrpcStage, channel: grpc.Channel) -> None:
    said: queue.Queue[bytes | None] = queue.Queue()
    answers = both_ways(channel, "Chat")(iter(said.get, None), timeout=CALL_S)
    for word in (b"one", b"two"):
        said.put(word)
        assert [next(answers), next(answers)] == [word, word.upper()]
    assert stage.service.chats == 1
    said.put(None)
    assert list(answers) == [b"bye"]
    assert answers.code() is grpc.StatusCode.OK
    eventually(lambda: stage.service.chats == 0)


@pytest.mark.parametrize(
    ("word", "status"),
    [(b"refuse", grpc.StatusCode.INVALID_ARGUMENT), (b"break", grpc.StatusCode.INTERNAL)],
)
def test_what_a_stream_raises_ends_its_call(
    stage: GrpcStage, channel: grpc.Channel, word: bytes, status: grpc.StatusCode
) -> None:
    code, _ = failure(lambda: list(both_ways(channel, "Chat")(iter([word]), timeout=CALL_S)))
    assert code is status
    eventually(lambda: stage.service.chats == 0)


def test_a_cancelled_call_cancels_its_handler(stage: GrpcStage, channel: grpc.Channel) -> None:
    before = stage.service.cancelled
    answers = stream(channel, "Hold")(b"")
    assert next(answers) == b"held"
    answers.cancel()
    eventually(lambda: stage.service.cancelled == before + 1)
    eventually(lambda: sum(link.call_count for link in stage.links) == 0)


def test_a_call_ends_at_its_deadline(stage: GrpcStage, channel: grpc.Channel) -> None:
    before = stage.service.cancelled
    code, _ = failure(lambda: list(stream(channel, "Hold")(b"", timeout=0.2)))
    assert code is grpc.StatusCode.DEADLINE_EXCEEDED
    eventually(lambda: stage.service.cancelled == before + 1)


def test_a_connection_that_ends_ends_its_calls(stage: GrpcStage) -> None:
    before = stage.service.cancelled
    with plain_channel(stage) as channel:
        answers = stream(channel, "Hold")(b"")
        assert next(answers) == b"held"
        said: queue.Queue[bytes | None] = queue.Queue()
        chat = both_ways(channel, "Chat")(iter(said.get, None))
        said.put(b"one")
        assert next(chat) == b"one"
        assert stage.service.chats == 1
        (link,) = [link for link in stage.links if link.call_count]
        stage.loop.run(_in_loop(link.abort))
        eventually(lambda: stage.service.cancelled == before + 1)
        eventually(lambda: stage.service.chats == 0)
        said.put(None)


@pytest.mark.parametrize("is_tls", [False, True])
def test_a_client_that_says_no_more_and_reads_on_has_its_calls_ended(stage: GrpcStage, is_tls: bool) -> None:
    """Half a connection is none: nothing would tell when the client is gone."""
    before = stage.service.cancelled
    held = [(name, f"{SERVICE}Hold" if name == ":path" else value) for name, value in CALL_HEADERS]
    plain = socket.create_connection(("127.0.0.1", stage.port), CALL_S)
    with _unchecked_tls().wrap_socket(plain) if is_tls else plain as connection:
        connection.sendall(begun() + called(1, b"", held))
        eventually(lambda: stage.service.held)
        connection.shutdown(socket.SHUT_WR)
        eventually(lambda: stage.service.cancelled == before + 1)
        eventually(lambda: sum(link.call_count for link in stage.links) == 0)


async def _in_loop(what: object) -> None:
    what()  # type: ignore[operator]


def test_a_slow_reader_makes_a_stream_wait(stage: GrpcStage, channel: grpc.Channel) -> None:
    """Its windows are full; the handler waits for room, and holds no more than that."""
    stage.service.counted = 0
    answers = stream(channel, "Count")(b"1000 65536")
    next(answers)
    eventually(lambda: any(link._rooms for link in stage.links))
    queued = max(link._session.queued_bytes for link in stage.links)
    assert queued < MIB
    assert stage.service.counted < 900
    assert sum(1 for _ in answers) == 999


def test_a_message_over_the_limit_is_refused(tmp_path: Path) -> None:
    with (
        grpc_stage(tmp_path, limits=SessionLimits(message_bytes_max=1_000)) as stage,
        plain_channel(stage) as channel,
    ):
        assert unary(channel, "Echo")(bytes(1_000), timeout=CALL_S) == bytes(1_000)
        code, text = failure(lambda: unary(channel, "Echo")(bytes(1_001), timeout=CALL_S))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "1001 bytes" in text
        assert unary(channel, "Echo")(b"x", timeout=CALL_S) == b"x"


def test_a_server_that_stops_says_goodbye_and_ends_its_calls(tmp_path: Path) -> None:
    with grpc_stage(tmp_path) as stage, plain_channel(stage) as channel:
        answers = stream(channel, "Hold")(b"")
        assert next(answers) == b"held"
        stage.loop.run(stage.server.close())
        code, _ = failure(lambda: next(answers))
        assert code is grpc.StatusCode.UNAVAILABLE
        assert stage.service.cancelled == 1


# TLS -------------------------------------------------------------------------------------------------------


@pytest.mark.row("GR-01")
def test_tls_and_plain_connections_come_to_one_port(stage: GrpcStage, channel: grpc.Channel) -> None:
    certificate = ssl.get_server_certificate(("127.0.0.1", stage.port))
    credentials = grpc.ssl_channel_credentials(certificate.encode())
    with grpc.secure_channel(stage.address, credentials) as secure:
        assert unary(secure, "Echo")(b"secret", timeout=CALL_S) == b"secret"
    assert unary(channel, "Echo")(b"plain", timeout=CALL_S) == b"plain"


def _unchecked_tls() -> ssl.SSLContext:
    """Return what Java's and Go's SDKs use unless they are told otherwise: TLS that trusts anybody."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1", "h2"])
    return context


@pytest.mark.row("GR-01")
def test_tls_chooses_h2(stage: GrpcStage) -> None:
    with (
        socket.create_connection(("127.0.0.1", stage.port)) as plain,
        _unchecked_tls().wrap_socket(plain) as secure,
    ):
        assert secure.selected_alpn_protocol() == "h2"


def test_the_certificate_is_kept_and_readable_by_us_alone(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        with grpc_stage(tmp_path) as stage:
            seen.append(ssl.get_server_certificate(("127.0.0.1", stage.port)))
    assert seen[0] == seen[1]
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


def test_tls_can_be_switched_off(tmp_path: Path) -> None:
    with grpc_stage(tmp_path, NetSettings(tls_server_mode=TlsServerMode.DISABLED)) as stage:
        with plain_channel(stage) as channel:
            assert unary(channel, "Echo")(b"x", timeout=CALL_S) == b"x"
        assert not (tmp_path / FILE_NAME).exists()


def test_tls_can_be_required(tmp_path: Path) -> None:
    with (
        grpc_stage(tmp_path, NetSettings(tls_server_mode=TlsServerMode.ENFORCING)) as stage,
        plain_channel(stage) as channel,
    ):
        code, _ = failure(lambda: unary(channel, "Echo")(b"x", timeout=CALL_S))
        assert code is grpc.StatusCode.UNAVAILABLE


def test_threads_share_a_channel(channel: grpc.Channel) -> None:
    wrong: list[bytes] = []

    def call(name: bytes) -> None:
        wrong.extend(name for _ in range(50) if unary(channel, "Echo")(name, timeout=CALL_S) != name)

    threads = [threading.Thread(target=call, args=(b"%d" % number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
