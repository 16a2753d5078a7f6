"""The gRPC SDKs of 5.x, each by the program that drives it, and what is known of each."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from harness.program import Program
from harness.sdk5 import sdk_toolchains


class Tls(Enum):
    """What an SDK does with TLS."""

    NONE = "it has none, or one that is not finished"
    TRUSTING = "it trusts any certificate"
    #: It may be told of another file, as all that is built on gRPC's own libraries.
    CHECKED = "it trusts what the system's authorities signed"


@dataclass(frozen=True)
class Sdk:
    """How to run the driver of one SDK."""

    name: str
    command: Callable[[], list[str]]
    tls: Tls
    always_tls: bool = False

    def start(
        self,
        folder: Path,
        endpoint: str,
        *,
        tls: bool = False,
        trusted: Path | None = None,
        account: tuple[str, str] = ("-", "-"),
    ) -> Program:
        """Start the driver; its logs and its home are the given folder."""
        folder.mkdir(parents=True, exist_ok=True)
        words = [*self.command(), endpoint, "tls" if tls else "plain", *account]
        home = {"HOME": str(folder), "JDK_JAVA_OPTIONS": f"-Duser.home={folder}"}
        roots = {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(trusted)} if trusted else {}
        return Program(words, folder=folder, env={**os.environ, **home, **roots})


SDKS = {
    sdk.name: sdk
    for sdk in (
        Sdk("java", sdk_toolchains.java_sdk, Tls.TRUSTING),
        Sdk("python", sdk_toolchains.python_sdk, Tls.CHECKED),
        Sdk("node", sdk_toolchains.node_sdk, Tls.CHECKED),
        Sdk("go", sdk_toolchains.go_sdk, Tls.TRUSTING, always_tls=True),
        Sdk("rust", sdk_toolchains.rust_sdk, Tls.NONE),
    )
}
