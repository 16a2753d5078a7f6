"""The gRPC SDKs of 5.x, each by the program that drives it, and what is known of each."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.program import Program
from harness.sdk5 import sdk_toolchains
from harness.sdk5.doors import Door


@dataclass(frozen=True)
class Sdk:
    """How to run the driver of one SDK."""

    name: str
    command: Callable[[], list[str]]
    #: Why it cannot speak TLS to a broker whose certificate nobody signed, or at all.
    no_tls: str = ""
    always_tls: bool = False

    def start(
        self, folder: Path, endpoint: str, *, tls: bool = False, account: tuple[str, str] = ("-", "-")
    ) -> Program:
        """Start the driver; its logs and its home are the given folder."""
        folder.mkdir(parents=True, exist_ok=True)
        words = [*self.command(), endpoint, "tls" if tls else "plain", *account]
        home = {"HOME": str(folder), "JDK_JAVA_OPTIONS": f"-Duser.home={folder}"}
        return Program(words, folder=folder, env={**os.environ, **home})

    def at(self, door: Door, folder: Path) -> Program:
        """Start the driver in plain text at a broker."""
        return self.start(folder, door.endpoint)


VERIFIES = "it trusts only certificates that the system's authorities signed"

SDKS = {
    sdk.name: sdk
    for sdk in (
        Sdk("java", sdk_toolchains.java_sdk),
        Sdk("python", sdk_toolchains.python_sdk, no_tls=VERIFIES),
        Sdk("node", sdk_toolchains.node_sdk, no_tls=VERIFIES),
        Sdk("go", sdk_toolchains.go_sdk, always_tls=True),
        Sdk("rust", sdk_toolchains.rust_sdk, no_tls="its TLS is not finished"),
    )
}
