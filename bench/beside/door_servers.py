"""Brokers with a door for clients of 5.x: ours, and Apache's newest with its proxy in the same process."""

import json
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.ports import free_broker_port
from harness.servers import broker_file
from harness.toolchains import java_classpath, tool

from beside.figures import PYROMQ
from beside.servers import JVM, SHARED, START_TIMEOUT_S, Broker, Stage
from pyromq.bench.exchanges import creation, exchange
from pyromq.codes import RequestCode
from pyromq.net.address import split_address
from pyromq.wire.command import Command

PROXY_JARS = "proxy-5.5.0"
#: A group as an administrator creates it; Apache's proxy knows no others in this mode.
GROUP_FIELDS: dict[str, Any] = {
    "consumeEnable": True,
    "consumeFromMinEnable": True,
    "consumeBroadcastEnable": True,
    "retryQueueNums": 1,
    "retryMaxTimes": 16,
    "brokerId": 0,
    "whichBrokerWhenConsumeSlowly": 1,
    "notifyConsumerIdsChangedEnable": True,
}


@dataclass
class DoorBroker(Broker):
    """A broker that 5.x's clients reach too."""

    door: str = ""
    """Where its gRPC port is; empty: it has none."""
    command: tuple[str, ...] = ()
    """How it was started."""

    @property
    def name(self) -> str:
        """What its handles call it."""
        return self.folder.name


class DoorStage(Stage):
    """Starts brokers with a gRPC port of their own."""

    def __init__(self, folder: Path, closing: ExitStack) -> None:
        super().__init__(folder, closing)
        self._doors = 0

    def with_door(self, kind: str, *, is_open: bool = True, is_plain: bool = False) -> DoorBroker:
        """Start a broker on an empty folder, and do not wait for it.

        `is_open`: with the gRPC port; `is_plain`: without what is compiled, if it is ours.
        """
        self._doors += 1
        name = f"door-{self._doors}"
        name_server, port, grpc_port = self.name_server(kind), free_broker_port(), free_broker_port()
        given = {"namesrvAddr": name_server, "brokerClusterName": name, "brokerName": name, **SHARED}
        if kind == PYROMQ:
            given["grpcServerPort"] = grpc_port if is_open else 0
            settings = broker_file(self._folder, name, port, **given)
            command = self._pyromq("broker", "-c", str(settings), "-n", name_server)
        else:
            given |= {"haListenPort": port + 1, "brokerIP2": "127.0.0.1"}
            settings = broker_file(self._folder, name, port, **given)
            command = self._proxy(name, settings, name_server, grpc_port)
        output = self._folder / f"{name}.out"
        if is_plain:
            command = ["env", "PYROMQ_PURE=1", *command]
        process = self._spawn(command, output)
        folder, door = self._folder / name, f"127.0.0.1:{grpc_port}" if is_open else ""
        address = f"127.0.0.1:{port}"
        return DoorBroker(
            kind, process, name_server, address, folder, output, door=door, command=tuple(command)
        )

    def end(self, broker: DoorBroker) -> None:
        """End a broker, and leave what it stored."""
        broker.process.terminate()
        broker.process.wait(START_TIMEOUT_S)

    def again(self, broker: DoorBroker) -> None:
        """Start it once more, and do not wait."""
        broker.process = self._spawn([*broker.command], broker.output)

    def _proxy(self, name: str, settings: Path, name_server: str, grpc_port: int) -> list[str]:
        own = self._folder / f"{name}-proxy.json"
        own.write_text(
            json.dumps(
                {
                    "rocketMQClusterName": name,
                    "proxyName": name,
                    "namesrvAddr": name_server,
                    "grpcServerPort": grpc_port,
                    "remotingListenPort": free_broker_port(),
                    "localServeAddr": "127.0.0.1",
                }
            )
        )
        # Without these it writes its logs to the home, and they cost it time.
        conf = self._folder / "home" / "conf"
        for kind in ("proxy", "broker"):
            (conf / f"logback_{kind}.xml").write_text('<configuration><root level="OFF"/></configuration>')
        (conf / "rmq.proxy.logback.xml").write_text('<configuration><root level="OFF"/></configuration>')
        flags = [*JVM, f"-Duser.home={self._folder}", f"-Dcom.rocketmq.proxy.configPath={own}"]
        logging = f"-Drmq.logback.configurationFile={conf / 'logback_broker.xml'}"
        words = ["-pm", "local", "-n", name_server, "-bc", str(settings), "-pc", str(own)]
        classpath = java_classpath(PROXY_JARS)
        main = "org.apache.rocketmq.proxy.ProxyStartup"
        return [tool("java"), *flags, logging, "-cp", classpath, main, *words]


def prepare(broker: DoorBroker, topics: Sequence[str], groups: Sequence[str], queues: int) -> None:
    """Create topics and groups, as an administrator does."""
    created = [creation(topic, queues) for topic in topics]
    created += [
        Command(
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            body=json.dumps({"groupName": group, **GROUP_FIELDS}).encode(),
        )
        for group in groups
    ]
    with socket.create_connection(split_address(broker.address), START_TIMEOUT_S) as link:
        exchange(link, created)
