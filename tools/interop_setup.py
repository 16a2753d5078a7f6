"""Fetch and build everything that the interop tests need, and say what is missing."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "interop"))

from harness import toolchains
from harness.sdk5 import sdk_toolchains

PARTS = {
    "Java client 4.9.8": lambda: toolchains.java_client("4.9.8"),
    "Java client 5.5.0": lambda: toolchains.java_client("5.5.0"),
    "Apache servers 4.9": lambda: toolchains.java_classpath("server-4.9"),
    "Apache servers 5.5.0": lambda: toolchains.java_classpath("server-5.5.0"),
    "Go client": toolchains.go_client,
    "C++ client": toolchains.cpp_client,
    "JavaScript client": toolchains.js_client,
    "Apache proxy 5.5.0": lambda: toolchains.java_classpath("proxy-5.5.0"),
    "SDK for Java": sdk_toolchains.java_sdk,
    "SDK for Python": sdk_toolchains.python_sdk,
    "SDK for Node": sdk_toolchains.node_sdk,
    "SDK for Go": sdk_toolchains.go_sdk,
}


def main() -> int:
    """Build each part; return how many are missing."""
    missing = 0
    for name, build in PARTS.items():
        start = time.monotonic()
        try:
            build()
        except toolchains.Unavailable as reason:
            missing += 1
            print(f"{name}: missing: {reason}")
        else:
            print(f"{name}: ready ({time.monotonic() - start:.1f} s)")
    return missing


if __name__ == "__main__":
    sys.exit(main())
