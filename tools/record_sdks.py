"""Record what the gRPC SDKs of 5.x say to Apache's 5.5 broker with its proxy, for `tests/golden/sdk5`.

python tools/record_sdks.py            all five
python tools/record_sdks.py go rust    some
"""

import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "interop"))

from harness.ports import free_broker_port
from harness.sdk5 import golden_story
from harness.sdk5.doors import open_apaches
from harness.sdk5.exchanges import lines_of
from harness.sdk5.grpc_tap import GrpcTap
from harness.sdk5.sdks import SDKS

from pyromq.net.http2.own_certificate import own_certificate

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden" / "sdk5"


def record(name: str, folder: Path) -> None:
    """Tell the story to one SDK on a broker of its own, and keep what passed."""
    with ExitStack() as closing:
        # Apache's notes ends of transactions up to 3 s late, and until then asks about them again.
        door = open_apaches(
            folder / "door", closing, transactionTimeOut=4_000, transactionCheckInterval=10_000
        )
        golden_story.prepare(door)
        certificate = own_certificate(folder) if SDKS[name].always_tls else None
        with GrpcTap(free_broker_port(), door.port, certificate) as tap:
            program = SDKS[name].start(folder / "program", f"127.0.0.1:{tap.port}")
            try:
                golden_story.tell(program)
                program.quit()
            finally:
                program.close()
        lines = lines_of(tap.calls)
    GOLDEN.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line, ensure_ascii=False, sort_keys=True) + "\n" for line in lines)
    (GOLDEN / f"{name}.jsonl").write_text(text)
    print(f"{name}: {len(lines)} calls, {len(text)} bytes")


def main(names: list[str]) -> None:
    """Record some SDKs, or all."""
    with tempfile.TemporaryDirectory() as folder:
        for name in names or SDKS:
            record(name, Path(folder) / name)


if __name__ == "__main__":
    main(sys.argv[1:])
