"""The three kinds of servers that the client programs are run against."""

import json
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from harness.observer import Observer
from harness.ports import free_broker_port
from harness.processes import Server
from harness.toolchains import JVM, java_classpath, tool
from pyromq.testing.waiting import eventually

PYROMQ = [sys.executable, "-m", "pyromq"]
#: A Java machine on a busy machine; only spent where a start fails.
START_TIMEOUT_S = 240

#: A commit log of the default size would be a 1 GiB file for each server.
COMMIT_LOG_BYTES = 64 * 1024 * 1024

#: Transactions that nobody ended are asked about soon; a minute is long for a test.
SOON: dict[str, str | int] = {"transactionTimeOut": 1_000, "transactionCheckInterval": 1_000}

#: Any delay in a broker of 5.x, in small files, as precise as it can be, and with recalls.
TIMERS: dict[str, str | int] = {
    "timerWheelEnable": "true",
    "timerPrecisionMs": 100,
    "mappedFileSizeTimerLog": 1024 * 1024,
    "recallMessageEnable": "true",
}

#: Java 17 lets nobody look into its buffers, and a 4.9 broker that cannot do so does not end in order,
#: and does not start after a kill.
OPEN_BUFFERS = {
    "JDK_JAVA_OPTIONS": "--add-opens=java.base/java.nio=ALL-UNNAMED "
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED"
}

#: What our client is tested on: every test that takes these is the same for ours and for Apache's.
OURS_AND_APACHES = ("up", "apache-4.9", "apache-5")


@dataclass(frozen=True)
class Cluster:
    """Running servers, and how to reach them."""

    kind: str
    name_server: str
    brokers: dict[str, str]  # a broker's name → its address

    @property
    def is_apache(self) -> bool:
        """Whether these are the real servers, which calibrate the programs."""
        return self.kind.startswith("apache")


Start = Callable[[Path, ExitStack], Cluster]


def start_up(folder: Path, closing: ExitStack) -> Cluster:
    """Start `pyromq up`: both servers in one process."""
    port = free_broker_port()
    ready = start_pyromq(
        folder,
        closing,
        "up",
        *("up", "--data", str(folder / "data"), "--namesrv-port", "0", "--broker-port", str(port)),
        *("--set", f"mappedFileSizeCommitLog={COMMIT_LOG_BYTES}"),
        *(word for name, value in SOON.items() for word in ("--set", f"{name}={value}")),
    )
    return Cluster("up", ready["namesrv"], {"broker-a": ready["broker"]})


def start_separate(folder: Path, closing: ExitStack) -> Cluster:
    """Start `pyromq namesrv` and two `pyromq broker` processes."""
    name_server = start_pyromq(
        folder, closing, "namesrv", "namesrv", "-p", "0", "--data", str(folder / "namesrv-data")
    )
    address = name_server["namesrv"]
    brokers = {}
    for name in ("broker-a", "broker-b"):
        settings = broker_file(folder, name, free_broker_port())
        ready = start_pyromq(folder, closing, name, "broker", "-c", str(settings), "-n", address)
        brokers[name] = ready["broker"]
    return Cluster("separate", address, brokers)


def start_apache_4(folder: Path, closing: ExitStack) -> Cluster:
    """Start Apache's 4.9.7 servers on the libraries of 4.9.8, whose server modules are not published."""
    return start_apache("apache-4.9", folder, closing, **SOON)


def start_apache_5(folder: Path, closing: ExitStack) -> Cluster:
    """Start Apache's newest 5.x servers."""
    return start_apache("apache-5", folder, closing, **SOON)


def start_apache_5_timers(folder: Path, closing: ExitStack) -> Cluster:
    """Start them so that they delay a message for any time, which costs a third of a core all the time."""
    return start_apache("apache-5", folder, closing, **SOON, **TIMERS)


STARTS: dict[str, Start] = {
    "up": start_up,
    "separate": start_separate,
    "apache-4.9": start_apache_4,
    "apache-5": start_apache_5,
    "apache-5-timers": start_apache_5_timers,
}


def start_pyromq(folder: Path, closing: ExitStack, name: str, *arguments: str) -> dict[str, str]:
    """Start a server of ours, stopped when `closing` ends; return what its ready file says."""
    ready_file = folder / f"{name}.ready"
    server = Server([*PYROMQ, *arguments, "--ready-file", str(ready_file)], folder=folder, name=name)
    closing.callback(_stop_clean, server, name)
    server.wait_for_file(ready_file, START_TIMEOUT_S)
    ready: dict[str, str] = json.loads(ready_file.read_text())
    return ready


def _stop_clean(server: Server, name: str) -> None:
    status = server.stop()
    assert status == 0, f"{name} ended with status {status}:\n{server.output[-4000:]}"
    assert "Traceback" not in server.output, server.output[-4000:]


def broker_file(folder: Path, name: str, port: int, **more: str | int) -> Path:
    """Write a broker's settings in Apache's own format, which our broker must take as it is."""
    settings = {
        "brokerClusterName": "DefaultCluster",
        "brokerName": name,
        "brokerId": 0,
        "brokerIP1": "127.0.0.1",
        "listenPort": port,
        "storePathRootDir": folder / name / "store",
        "storePathCommitLog": folder / name / "store" / "commitlog",
        "mappedFileSizeCommitLog": COMMIT_LOG_BYTES,
        "autoCreateTopicEnable": "true",
        **more,
    }
    path = folder / f"{name}.conf"
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path


def start_ours(folder: Path, closing: ExitStack, **more: str | int) -> Cluster:
    """Start a name server and one broker of ours, with settings that are Apache's own."""
    data = str(folder / "namesrv-data")
    address = start_pyromq(folder, closing, "namesrv", "namesrv", "-p", "0", "--data", data)["namesrv"]
    settings = broker_file(folder, "broker-a", free_broker_port(), **more)
    ready = start_pyromq(folder, closing, "broker-a", "broker", "-c", str(settings), "-n", address)
    return Cluster("ours", address, {"broker-a": ready["broker"]})


#: The jars of each kind of Apache's servers.
_JARS = {"apache-4.9": "server-4.9", "apache-5": "server-5.5.0"}


def start_apache(kind: str, folder: Path, closing: ExitStack, **more: str | int) -> Cluster:
    """Start a name server and one broker of Apache's, with more settings."""
    classpath = java_classpath(_JARS[kind])
    environment = apache_home(folder)
    port = free_broker_port()
    settings = folder / "namesrv.conf"
    settings.write_text(f"listenPort={port}\nbindAddress=127.0.0.1\n")
    address = f"127.0.0.1:{port}"
    name_server = start_java(classpath, "namesrv.NamesrvStartup", settings, "namesrv", folder, environment)
    closing.callback(name_server.kill)
    name_server.wait_for_text("boot success", START_TIMEOUT_S)
    broker_port = free_broker_port()
    settings = broker_file(
        folder,
        "broker-a",
        broker_port,
        namesrvAddr=address,
        bindAddress="127.0.0.1",
        brokerIP2="127.0.0.1",
        haListenPort=broker_port + 1,
        # A busy machine is no reason to refuse a send that waited for 200 ms.
        waitTimeMillsInSendQueue=START_TIMEOUT_S * 1000,
        **({"timerWheelEnable": "false"} | more),
    )
    broker = start_java(classpath, "broker.BrokerStartup", settings, "broker-a", folder, environment)
    closing.callback(broker.kill)
    broker.wait_for_text("boot success", START_TIMEOUT_S)
    # Apache's broker says so before the name server knows it; a busy machine takes more than one attempt.
    eventually(lambda: Observer(address).queues("TBW102"), START_TIMEOUT_S, what=f"{kind} has a broker")
    return Cluster(kind, address, {"broker-a": f"127.0.0.1:{broker_port}"})


def start_java(
    classpath: str, main: str, settings: Path, name: str, folder: Path, environment: dict[str, str]
) -> Server:
    """Start one of Apache's servers, and do not wait."""
    logging = f"-Drmq.logback.configurationFile={folder / 'home/conf/logback_broker.xml'}"
    command = [tool("java"), *JVM, "-Xms256m", "-Xmx512m", f"-Duser.home={folder}", logging, "-cp", classpath]
    return Server(
        [*command, f"org.apache.rocketmq.{main}", "-c", str(settings)],
        folder=folder,
        name=name,
        env=environment,
    )


def apache_home(folder: Path) -> dict[str, str]:
    """Lay out the little that the servers want of an installation: where their logs go."""
    conf = folder / "home" / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    for name in ("logback_namesrv.xml", "logback_broker.xml"):
        (conf / name).write_text('<configuration><root level="OFF"/></configuration>')
    return {**os.environ, "ROCKETMQ_HOME": str(folder / "home")}
