"""Brokers that gRPC clients need one address of: ours, and Apache's 5.5 with its proxy in one process."""

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from harness.observer import SUCCESS, Observer
from harness.ports import free_broker_port
from harness.processes import Server
from harness.servers import (
    PYROMQ,
    SOON,
    START_TIMEOUT_S,
    apache_home,
    broker_file,
    start_java,
    start_pyromq,
)
from harness.toolchains import JVM, java_classpath, tool
from pyromq.net.http2.own_certificate import own_certificate
from pyromq.testing.waiting import eventually

#: Who may do everything where access is controlled.
OPERATOR, OPERATOR_SECRET = "the-operator", "operators-secret-1"

#: Apache's timers, in small files and precise; recalls and filters, which are off by default.
APACHE_MORE: dict[str, str | int] = {
    "timerWheelEnable": "true",
    "timerPrecisionMs": 100,
    "mappedFileSizeTimerLog": 1024 * 1024,
    "recallMessageEnable": "true",
    "enablePropertyFilter": "true",
}

_CREATE_TOPIC, _CREATE_GROUP = 17, 200


@dataclass
class Door:
    """A running broker with its name server; it can be ended and started again at the same addresses."""

    kind: str
    name_server: str
    broker: str
    port: int
    start: Callable[[], Server]
    #: The file with its certificate and key.
    certificate: Path
    account: tuple[str, str] | None = None
    server: Server = field(init=False)

    def __post_init__(self) -> None:
        self.server = self.start()

    @property
    def endpoint(self) -> str:
        """What an SDK is told to connect to."""
        return f"127.0.0.1:{self.port}"

    @property
    def is_apache(self) -> bool:
        """Whether this is the real thing."""
        return self.kind == "apache"

    def end(self, *, gently: bool = False) -> None:
        """End the broker, so that clients' connections break."""
        if gently:
            self.server.stop()
        else:
            self.server.kill()

    def begin(self) -> None:
        """Start the broker again, with what it has on its disk."""
        self.server = self.start()

    def create_topic(self, topic: str, kind: str = "NORMAL", queues: int = 4) -> None:
        """Create a topic that takes one kind of messages, and wait until it has a route."""
        self._administer(
            _CREATE_TOPIC,
            topic=topic,
            defaultTopic="TBW102",
            readQueueNums=queues,
            writeQueueNums=queues,
            perm=6,
            topicFilterType="SINGLE_TAG",
            topicSysFlag=0,
            order="false",
            attributes=f"+message.type={kind}",
        )
        eventually(
            lambda: Observer(self.name_server).queues(topic), START_TIMEOUT_S, what=f"{topic} has a route"
        )

    def create_group(self, group: str, *, orderly: bool = False, retries: int = 16) -> None:
        """Create a consumer group."""
        config = {
            "groupName": group,
            "consumeEnable": True,
            "consumeFromMinEnable": True,
            "consumeBroadcastEnable": True,
            "consumeMessageOrderly": orderly,
            "retryQueueNums": 1,
            "retryMaxTimes": retries,
            "brokerId": 0,
            "whichBrokerWhenConsumeSlowly": 1,
            "notifyConsumerIdsChangedEnable": True,
        }
        self._administer(_CREATE_GROUP, json.dumps(config).encode())

    def _administer(self, code: int, body: bytes = b"", **fields: object) -> None:
        texts = {name: str(value) for name, value in fields.items()}
        if self.account:
            key, secret = self.account
            texts["AccessKey"] = key
            signed = "".join(texts[name] for name in sorted(texts)).encode() + body
            digest = hmac.digest(secret.encode(), signed, hashlib.sha1)
            texts["Signature"] = base64.b64encode(digest).decode()
        answer, _, text = Observer(self.name_server).ask(self.broker, code, body, **texts)
        assert answer == SUCCESS, (code, answer, text)


def open_ours(folder: Path, closing: ExitStack, **more: str | int) -> Door:
    """Start a name server and a broker of ours."""
    data = str(folder / "namesrv-data")
    name_server = start_pyromq(folder, closing, "namesrv", "namesrv", "-p", "0", "--data", data)["namesrv"]
    broker_port, port = free_broker_port(), free_broker_port()
    settings = broker_file(folder, "broker-a", broker_port, **SOON, **more)
    ready_file = folder / "broker-a.ready"

    def start() -> Server:
        ready_file.unlink(missing_ok=True)
        words = ["broker", "-c", str(settings), "-n", name_server, "--ready-file", str(ready_file)]
        # Other brokers of the tests have no such port: their environment says so.
        environment = {**os.environ, "PYROMQ_GRPC_SERVER_PORT": str(port)}
        server = Server([*PYROMQ, *words], folder=folder, name="broker-a", env=environment)
        closing.callback(server.kill)
        server.wait_for_file(ready_file, START_TIMEOUT_S)
        return server

    certificate = folder / "broker-a" / "store" / "config" / "grpcCertificate.pem"
    return Door("ours", name_server, f"127.0.0.1:{broker_port}", port, start, certificate)


def open_apaches(folder: Path, closing: ExitStack, **more: str | int) -> Door:
    """Start a name server of Apache's, and its proxy with the broker in the same process."""
    classpath = java_classpath("proxy-5.5.0")
    environment = apache_home(folder)
    name_server_port, broker_port, port, remoting = (free_broker_port() for _ in range(4))
    name_server = f"127.0.0.1:{name_server_port}"
    settings = folder / "namesrv.conf"
    settings.write_text(f"listenPort={name_server_port}\nbindAddress=127.0.0.1\n")
    names = start_java(classpath, "namesrv.NamesrvStartup", settings, "namesrv", folder, environment)
    closing.callback(names.kill)
    names.wait_for_text("boot success", START_TIMEOUT_S)
    certificate = own_certificate(folder)
    broker = broker_file(
        folder,
        "broker-a",
        broker_port,
        namesrvAddr=name_server,
        bindAddress="127.0.0.1",
        brokerIP2="127.0.0.1",
        haListenPort=broker_port + 1,
        waitTimeMillsInSendQueue=START_TIMEOUT_S * 1000,
        **{**APACHE_MORE, **SOON, **more},
    )
    proxy = {
        "rocketMQClusterName": "DefaultCluster",
        "proxyName": "proxy-a",
        "localServeAddr": "127.0.0.1",
        "namesrvAddr": name_server,
        "grpcServerPort": port,
        "remotingListenPort": remoting,
        "grpcThreadPoolNums": 8,
        # One that it makes for itself it shows to nobody; the file has certificate and key.
        "tlsTestModeEnable": False,
        "tlsCertPath": str(certificate),
        "tlsKeyPath": str(certificate),
        **_proxy_access(more),
    }
    (folder / "proxy.json").write_text(json.dumps(proxy))
    logging = folder / "home/conf/logback_proxy.xml"
    logging.write_text('<configuration><root level="OFF"/></configuration>')
    words = [
        tool("java"),
        *JVM,
        "-Xms256m",
        "-Xmx640m",
        "-XX:MaxDirectMemorySize=1g",
        f"-Duser.home={folder}",
    ]
    words += [f"-Drmq.logback.configurationFile={logging}", "-cp", classpath]
    words += ["org.apache.rocketmq.proxy.ProxyStartup", "-pm", "local", "-pc", str(folder / "proxy.json")]
    words += ["-bc", str(broker), "-n", name_server]

    def start() -> Server:
        server = Server(words, folder=folder, name="broker-a", env=environment)
        closing.callback(server.kill)
        server.wait_for_text("rocketmq-proxy startup successfully", START_TIMEOUT_S)
        eventually(
            lambda: Observer(name_server).queues("TBW102"), START_TIMEOUT_S, what="Apache's has a broker"
        )
        return server

    return Door("apache", name_server, f"127.0.0.1:{broker_port}", port, start, certificate)


_AUTH = "org.apache.rocketmq.auth"
#: Access control of 5.x with one user, who may do everything; the proxy must be told most of it too.
_APACHE_ACCESS: dict[str, str | int] = {
    "authenticationEnabled": "true",
    "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationEnabled": "true",
    "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
    "initAuthenticationUser": json.dumps({"username": OPERATOR, "password": OPERATOR_SECRET}),
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": OPERATOR, "secretKey": OPERATOR_SECRET}),
}


def _proxy_access(broker: dict[str, str | int]) -> dict[str, str | int]:
    """Return what the proxy must be told too of a broker's access control: to ask the broker for users."""
    told = {name: value for name, value in broker.items() if name in _APACHE_ACCESS}
    asks = {
        f"{what}MetadataProvider": f"org.apache.rocketmq.proxy.auth.Proxy{what.capitalize()}MetadataProvider"
        for what in ("authentication", "authorization")
    }
    return {**told, **asks} if told else {}


OPENS: dict[str, Callable[..., Door]] = {"ours": open_ours, "apache": open_apaches}


def open_guarded(kind: str, folder: Path, closing: ExitStack) -> Door:
    """Start a broker, with its name server, that only an operator may use."""
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "ours":
        accounts = f"accounts:\n- accessKey: {OPERATOR}\n  secretKey: {OPERATOR_SECRET}\n  admin: true\n"
        (folder / "plain_acl.yml").write_text(accounts)
        door = open_ours(folder, closing, aclEnable="true", aclFolder=str(folder))
    else:
        door = open_apaches(folder, closing, **_APACHE_ACCESS)
    door.account = (OPERATOR, OPERATOR_SECRET)
    return door
