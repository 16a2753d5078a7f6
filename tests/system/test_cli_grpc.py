"""The port for RocketMQ 5's SDKs, as the command line opens it and says so."""

import json
import random
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from pyromq.testing.waiting import eventually
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_codes import GrpcCode

Up = Callable[..., Any]
DEADLINE_S = 60.0


@contextmanager
def taken_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def free_port(count: int = 1) -> int:
    """Return the first of so many free ports, of those that the system gives to no connection."""
    while True:
        first = random.randrange(20_000, 30_000)
        with ExitStack() as taken:
            try:
                for port in range(first, first + count):
                    taken.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first


def sent_code(address: str, topic: str) -> int:
    """Send a message as an SDK does, and return the code."""
    system = pb.SystemProperties(message_id="ID")
    request = pb.SendMessageRequest(
        messages=[pb.Message(topic=pb.Resource(name=topic), body=b"hello", system_properties=system)]
    )
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary(
            "/apache.rocketmq.v2.MessagingService/SendMessage",
            request_serializer=lambda one: one.SerializeToString(),
            response_deserializer=pb.SendMessageResponse.FromString,
        )
        answer = call(request, metadata=(("x-mq-client-id", "c"),), timeout=DEADLINE_S)
    return int(answer.status.code)


def test_a_start_says_where_sdks_connect(shell: Any, up: Up) -> None:
    port = free_port()
    server = up("--set", f"grpcServerPort={port}")
    hello = server.ready()
    assert hello["grpc"] == f"127.0.0.1:{port}"
    assert f"RocketMQ 5 SDKs  127.0.0.1:{port}" in server.out
    shell.output_of("topic", "create", "-n", hello["namesrv"], "hello")
    assert sent_code(hello["grpc"], "hello") == GrpcCode.OK
    assert shell.output_of("consume", "-n", hello["namesrv"], "hello", "--body-only") == "hello\n"


def test_a_port_that_was_asked_for_must_be_free(shell: Any, tmp_path: Path) -> None:
    with taken_port() as port:
        program = shell.start(
            *("up", "--namesrv-port", "0", "--broker-port", "0", "--data", str(tmp_path / "data")),
            *("--set", f"grpcServerPort={port}"),
        )
        assert program.wait() != 0
    assert f"port {port} is taken; set grpcServerPort to another" in program.err
    assert "Traceback" not in program.err


def test_each_broker_of_a_cluster_has_a_port_of_its_own(up: Up) -> None:
    first = free_port(2)
    hello = up("--brokers", "2", "--set", f"grpcServerPort={first}").ready()
    assert [broker["grpc"] for broker in hello["brokers"]] == [f"127.0.0.1:{first}", f"127.0.0.1:{first + 1}"]


STARTS = """
import asyncio, json, sys
sys.modules.update({absent})
from pyromq.broker.broker import Broker
from pyromq.broker.grpc import grpc_opening
from pyromq.config.grpc_settings import GrpcOpening
from pyromq.config.load import build
from pyromq.config.settings import BrokerProcess

port, opening, folder = int(sys.argv[1]), GrpcOpening[sys.argv[2]], sys.argv[3]
if opening is not GrpcOpening.AS_SET:
    # RocketMQ's own port is for this test another one, as tests run beside each other.
    grpc_opening.DEFAULT_GRPC_PORT = port


async def main():
    own = {"store_path_root_dir": folder, "listen_port": 0, "grpc_server_port": port}
    broker = Broker(build(BrokerProcess, own), opening=opening)
    try:
        await broker.start()
    except Exception as error:
        return {"error": type(error).__name__, "text": str(error)}
    try:
        # With a port too, nothing of it is imported before somebody connects.
        has_protobuf = "google.protobuf.message" in sys.modules
        return {"port": broker.grpc.port, "why": broker.grpc.why_not, "protobuf": has_protobuf}
    finally:
        await broker.close()


print(json.dumps(asyncio.run(main())))
"""


def started(folder: Path, port: int, opening: str, *, absent: str = "{}") -> dict[str, Any]:
    """Start a broker in a process of its own, and return what came of its port."""
    program = STARTS.replace("{absent}", absent)
    run = subprocess.run(
        [sys.executable, "-c", program, str(port), opening, str(folder)],
        capture_output=True,
        check=True,
        timeout=DEADLINE_S,
    )
    said: dict[str, Any] = json.loads(run.stdout)
    return said


def test_a_port_that_nobody_asked_for_may_be_taken(tmp_path: Path) -> None:
    with taken_port() as port:
        said = started(tmp_path, port, "IF_FREE")
    assert said["port"] == 0
    assert f"port {port} is taken" in said["why"]


def test_a_broker_that_a_program_embeds_has_no_port_by_surprise(tmp_path: Path) -> None:
    said = started(tmp_path, free_port(), "IF_NAMED")
    assert said == {"port": 0, "why": None, "protobuf": False}


@pytest.mark.parametrize("absent", ["{'google': None}", "{'google.protobuf': None}"])
def test_without_the_extra_everything_else_works(tmp_path: Path, absent: str) -> None:
    said = started(tmp_path / "tolerant", free_port(), "IF_FREE", absent=absent)
    assert said["port"] == 0
    assert "pip install 'pyromq[grpc]'" in said["why"]
    strict = started(tmp_path / "strict", free_port(), "AS_SET", absent=absent)
    assert strict["error"] == "ConfigError"
    assert "pip install 'pyromq[grpc]'" in strict["text"]


@pytest.mark.parametrize("is_damaged", [True, False])
def test_a_start_says_when_there_can_be_no_certificate(tmp_path: Path, is_damaged: bool) -> None:
    certificate = tmp_path / "config" / "grpcCertificate.pem"
    absent = "{'cryptography': None}"
    if is_damaged:
        certificate.parent.mkdir()
        certificate.write_text("no certificate")
        absent = "{}"
    strict = started(tmp_path, free_port(), "AS_SET", absent=absent)
    assert strict["error"] == "ConfigError"
    assert (f"{certificate} or its key" if is_damaged else "pip install 'pyromq[grpc]'") in strict["text"]
    tolerant = started(tmp_path, free_port(), "IF_FREE", absent=absent)
    assert (tolerant["port"], tolerant["why"]) == (0, strict["text"])


def test_a_server_that_stops_lets_its_port_go(up: Up) -> None:
    port = free_port()
    server = up("--set", f"grpcServerPort={port}")
    server.ready()
    assert server.stop() == 0
    assert server.err == ""

    def is_free() -> bool:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
        return True

    assert eventually(is_free, DEADLINE_S, what="the port is free")
