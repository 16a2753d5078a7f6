"""The real clients, each by the program that drives it."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from harness import toolchains
from harness.program import Program


@dataclass(frozen=True)
class Client:
    """How to run the driver of one client."""

    name: str
    command: Callable[[], list[str]]
    before_address: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)

    def start(self, folder: Path, name_server: str) -> Program:
        """Start the driver; its logs and its home are the given folder."""
        words = [*self.command(), *(word.format(home=folder) for word in self.before_address), name_server]
        return Program(words, folder=folder, env={**os.environ, "HOME": str(folder), **self.env})


_JAVA = ("-Duser.home={home}", "-Dfile.encoding=UTF-8")
_MAIN = "Interop"
#: The binary header, and sends and pulls by the port that is two below the broker's.
_BINARY = ("-Drocketmq.serialize.type=ROCKETMQ", "-Dcom.rocketmq.sendMessageWithVIPChannel=true")

CLIENTS = {
    client.name: client
    for client in (
        Client("java-4.9.8", lambda: toolchains.java_client("4.9.8"), (*_JAVA, _MAIN)),
        Client("java-4.9.8-binary", lambda: toolchains.java_client("4.9.8"), (*_JAVA, *_BINARY, _MAIN)),
        Client("java-5.5.0", lambda: toolchains.java_client("5.5.0"), (*_JAVA, _MAIN)),
        Client(
            "java-5.5.0-binary",
            lambda: toolchains.java_client("5.5.0"),
            (*_JAVA, _MAIN),
            {"ROCKETMQ_SERIALIZE_TYPE": "ROCKETMQ"},
        ),
        Client("go-2.1.2", toolchains.go_client),
        Client("cpp-wheel-0.4.4", toolchains.cpp_client),
        Client("ali-ons-3.12.0", toolchains.js_client),
    )
}
