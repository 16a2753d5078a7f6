"""What serves gRPC is loaded with the first connection, on a thread, while remoting goes on."""

import asyncio
import json
import logging
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_sdk import CALL_S, Sdk, door_of, message, put_topic

import pyromq
from pyromq.broker.broker import Broker
from pyromq.broker.grpc import grpc_port
from pyromq.broker.grpc.grpc_door import GrpcDoor
from pyromq.net.http2.own_certificate import FILE_NAME
from pyromq.testing.cluster import Cluster
from pyromq.testing.waiting import aeventually
from pyromq.wire.grpc import grpc_messages as pb

TOPIC = "Orders"

#: Starts a broker in a process where nothing of gRPC was imported, has it take a message over remoting, and
#: then connects to its gRPC port.
COLD = """
import asyncio, json, sys
from pathlib import Path
from pyromq import Message, aio
from pyromq.broker.broker import Broker
from pyromq.config.load import build
from pyromq.config.settings import BrokerProcess
from pyromq.testing.cluster import Cluster
from pyromq.testing.waiting import aeventually

folder, kind = Path(sys.argv[1]), sys.argv[2]
HEAVY = ("google.protobuf.message", "cryptography.x509", "h2.connection", "pyromq.broker.grpc.grpc_door",
         "pyromq.wire.grpc.grpc_messages", "pyromq._kernel.http2.sessions")


def loaded():
    mapped = Path("/proc/self/maps").read_text()
    return [name for name in HEAVY if name in sys.modules] + [
        name for name in ("_upb", "libnghttp2") if name in mapped]


async def look(broker):
    before = loaded()
    task_names = sorted(task.get_name() for task in asyncio.all_tasks())
    _, writer = await asyncio.open_connection("127.0.0.1", broker.grpc.port)
    await aeventually(lambda: broker.grpc.door is not None, 30)
    writer.close()
    return {"before": before, "after": loaded(), "jobs": task_names}


async def main():
    more = {}
    if kind == "access":
        (folder / "plain_acl.yml").write_text(
            "accounts:\\n- {accessKey: admin-key, secretKey: admin-secret, admin: true}\\n")
        more = {"acl_enable": True, "acl_folder": str(folder),
                "inner_client_authentication_credentials":
                '{"accessKey":"admin-key","secretKey":"admin-secret"}'}
    async with Cluster(data_dir=folder / "data", has_grpc=kind != "slave", **more) as cluster:
        if kind == "plain":
            async with aio.Producer("senders", cluster.namesrv_address) as producer:
                await producer.send(Message("Orders", b"hello"))
        if kind != "slave":
            [broker] = cluster.brokers.values()
            return await look(broker)
        slave = Broker(build(BrokerProcess, {
            "broker_name": "broker-a", "broker_id": 1, "broker_role": "SLAVE", "listen_port": 0,
            "namesrv_addr": cluster.namesrv_address, "store_path_root_dir": str(folder / "slave"),
            "grpc_server_port": int(sys.argv[3])}))
        await slave.start()
        try:
            return await look(slave)
        finally:
            await slave.close()


print(json.dumps(asyncio.run(main())))
"""


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(data_dir=tmp_path, has_grpc=True) as cluster:
        put_topic(cluster, TOPIC)
        yield cluster


def broker_of(cluster: Cluster) -> Broker:
    [broker] = cluster.brokers.values()
    return broker


class HeldLoading:
    """Has a load wait on its thread until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began = threading.Event()
        self.go_on = threading.Event()
        self.threads: list[int] = []
        self._load = grpc_port._import_door
        monkeypatch.setattr(grpc_port, "_import_door", self._held)

    def _held(self, *args: Any) -> type[GrpcDoor]:
        self.threads.append(threading.get_ident())
        self.began.set()
        assert self.go_on.wait(CALL_S)
        return self._load(*args)

    async def has_begun(self) -> None:
        await aeventually(self.began.is_set, CALL_S, what="the load begins")


@pytest.fixture
def loading(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldLoading]:
    held = HeldLoading(monkeypatch)
    yield held
    held.go_on.set()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def handshake(port: int) -> tuple[str | None, bytes]:
    """Connect with TLS, whatever the certificate; return the protocol, and the kind of the first frame."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("127.0.0.1", port), CALL_S) as plain,
        context.wrap_socket(plain) as secure,
    ):
        return secure.selected_alpn_protocol(), secure.recv(9)[3:4]


@pytest.mark.parametrize("kind", ["plain", "access", "slave"])
def test_nothing_of_grpc_is_loaded_before_somebody_connects(tmp_path: Path, kind: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", COLD, str(tmp_path), kind, str(free_port())],
        capture_output=True,
        check=False,
        timeout=CALL_S,
    )
    assert run.returncode == 0, run.stderr.decode()
    said = json.loads(run.stdout)

    assert said["before"] == []
    assert {"google.protobuf.message", "pyromq.broker.grpc.grpc_door", "_upb"} <= set(said["after"])
    assert "tell where gRPC is" in said["jobs"]
    # Nobody is there who could fall silent, or is told of groups.
    assert not {"drop silent gRPC clients", "tell gRPC clients of groups"} & set(said["jobs"])


async def test_first_connections_wait_while_remoting_goes_on(cluster: Cluster, loading: HeldLoading) -> None:
    broker = broker_of(cluster)
    sdks = [Sdk(cluster.grpc_addresses[0], f"client-{number}") for number in range(50)]
    sends = [
        asyncio.create_task(sdk.stored(message(TOPIC, b"grpc", f"ID-{number}")))
        for number, sdk in enumerate(sdks)
    ]
    shaken = [asyncio.create_task(asyncio.to_thread(handshake, broker.grpc.port)) for _ in range(4)]
    await loading.has_begun()

    async with pyromq.aio.Producer("senders", cluster.namesrv_address) as producer:
        for number in range(100):
            await producer.send(pyromq.Message(TOPIC, b"remoting %d" % number))
    assert broker.grpc.door is None
    assert not any(task.done() for task in (*sends, *shaken))

    loading.go_on.set()
    receipts = await asyncio.gather(*sends)
    assert len({receipt.message_id for receipt in receipts}) == len(sdks)
    # What arrives first at a connection of HTTP/2 are settings.
    assert await asyncio.gather(*shaken) == [("h2", b"\x04")] * 4
    assert sum(queue.end for queue in broker.store.queues if queue.topic == TOPIC) == 150
    assert len(loading.threads) == 1
    assert loading.threads[0] != threading.get_ident()
    for sdk in sdks:
        await sdk.__aexit__(None, None, None)


async def test_the_first_connection_may_use_tls_and_trust_the_certificate_that_it_made(
    cluster: Cluster,
) -> None:
    port = broker_of(cluster).grpc.port
    certificate = broker_of(cluster).folder / FILE_NAME
    assert not certificate.exists()
    assert await asyncio.to_thread(handshake, port) == ("h2", b"\x04")

    credentials = grpc.ssl_channel_credentials(certificate.read_bytes())
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
        send = channel.unary_unary(
            "/apache.rocketmq.v2.MessagingService/SendMessage",
            request_serializer=pb.SendMessageRequest.SerializeToString,
            response_deserializer=pb.SendMessageResponse.FromString,
        )
        request = pb.SendMessageRequest(messages=[message(TOPIC)])
        answer = await send(request, metadata=(("x-mq-client-id", "client"),), timeout=CALL_S)
    assert answer.status.code == 20000


async def test_a_connection_that_goes_before_it_is_served_loads_for_the_next(
    cluster: Cluster, loading: HeldLoading
) -> None:
    with socket.create_connection(("127.0.0.1", broker_of(cluster).grpc.port)):
        await loading.has_begun()
    loading.go_on.set()
    async with Sdk(cluster.grpc_addresses[0]) as sdk:
        await sdk.stored(message(TOPIC))
    assert len(loading.threads) == 1


async def test_a_broker_that_closes_while_it_loads_serves_nobody_and_leaves_nothing(
    cluster: Cluster, loading: HeldLoading, caplog: pytest.LogCaptureFixture
) -> None:
    broker = broker_of(cluster)
    port = broker.grpc.port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await loading.has_begun()
    closing = asyncio.create_task(cluster.stop_broker("broker-a"))
    done, _ = await asyncio.wait({closing}, timeout=0.05)
    assert not done

    loading.go_on.set()
    await closing
    assert broker.grpc.door is None
    with suppress(ConnectionResetError):
        assert await reader.read() == b""
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    assert not [task for task in asyncio.all_tasks() if "gRPC" in task.get_name()]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_what_does_not_load_is_told_and_tried_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker = broker_of(cluster)
    load, causes = grpc_port._import_door, [ImportError("libupb.so: no such file")] * 2

    def fail(*args: Any) -> type[GrpcDoor]:
        if causes:
            raise causes.pop()
        return load(*args)

    monkeypatch.setattr(grpc_port, "_import_door", fail)
    monkeypatch.setattr(grpc_port, "TRY_AGAIN_S", 0.01)
    address = broker.grpc.address
    for _ in range(2):
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.grpc.port)
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        assert broker.grpc.why_not is not None
        assert "libupb.so: no such file" in broker.grpc.why_not
        assert (broker.grpc.address, broker._metrics.stats.grpc_address) == (None, "")
        assert broker._metrics.stats.why_no_grpc == broker.grpc.why_not

    async with Sdk(f"127.0.0.1:{broker.grpc.port}") as sdk:
        await sdk.stored(message(TOPIC))
    assert (broker.grpc.address, broker.grpc.why_not) == (address, None)
    assert (broker._metrics.stats.grpc_address, broker._metrics.stats.why_no_grpc) == (address, "")
    told = [record.getMessage() for record in caplog.records if "(gRPC)" in record.getMessage()]
    assert len(told) == 2
    assert "broker-a (gRPC) refuses connections: what serves RocketMQ 5's SDKs does not load" in told[0]
    assert "broker-a (gRPC) takes connections again" in told[1]


async def test_clients_that_come_after_a_restart_are_served_by_a_new_load(cluster: Cluster) -> None:
    first = await door_of(broker_of(cluster))
    await cluster.stop_broker("broker-a")
    await cluster.start_broker("broker-a")
    assert broker_of(cluster).grpc.door is None
    async with Sdk(cluster.grpc_addresses[0]) as sdk:
        await sdk.stored(message(TOPIC))
    assert broker_of(cluster).grpc.door not in (None, first)
