"""Find libnghttp2.so.14 for the kernel: the system's, or Debian's, put beside the module.

    python tools/nghttp2.py

Nothing is installed, and nobody need be root. Where it cannot be had, gRPC runs on h2 instead: that is said,
and is no failure.
"""

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
NAME = "libnghttp2.so.14"
BESIDE = ROOT / "src/pyromq/_kernel/http2" / NAME

sys.path.insert(0, str(ROOT / "tests" / "support"))


def main() -> int:
    """Find the library, or fetch it."""
    if is_there():
        return 0
    # Only now: it is seldom needed, and asks for the tests' packages.
    from debian_packages import fetched

    try:
        folder = fetched("nghttp2", ["libnghttp2-14"])
        [found] = [path for path in folder.rglob(f"{NAME}*") if not path.is_symlink()]
        shutil.copy(found, BESIDE)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        print(
            f"gRPC will run on h2, many times slower: {NAME} is not here ({error}); "
            "apt-get install libnghttp2-14"
        )
    return 0


def is_there() -> bool:
    """Whether the library can be used."""
    for path in (str(BESIDE), NAME):
        try:
            ctypes.CDLL(path)
        except OSError:
            continue
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
