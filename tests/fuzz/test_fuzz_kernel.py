"""The kernel under the compiler's sanitizers, for a moment; `make fuzz-kernel` does it for longer."""

import importlib
import subprocess
import sys
from pathlib import Path

import kernel_targets
import pytest
from effort import times
from kernel_inputs import COVERED

from pyromq.kernel import IS_COMPILED, MODULES, WITH_LIBRARIES

ROOT = Path(__file__).parents[2]
SECONDS = times(4)
STATUS_CANNOT = 77

pytestmark = pytest.mark.timeout(400)


def fuzz(*arguments: str) -> "subprocess.CompletedProcess[str]":
    ended = subprocess.run(
        [sys.executable, ROOT / "tools" / "fuzz_kernel.py", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=390,
    )
    if ended.returncode == STATUS_CANNOT:
        pytest.skip(ended.stdout.strip())
    return ended


def test_mutated_inputs_are_within_bounds() -> None:
    ended = fuzz("--seconds", str(SECONDS))

    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_byte_read_too_many_is_found_and_can_be_run_again() -> None:
    ended = fuzz("--seed", "7", "--only", kernel_targets.PROOF, "--first", "3", "--count", "1")

    assert ended.returncode == 1
    assert "heap-buffer-overflow" in ended.stdout
    assert f"--seed 7 --only {kernel_targets.PROOF} --first 3 --count 1" in ended.stdout


@pytest.mark.skipif(not IS_COMPILED, reason="the pure version runs")
@pytest.mark.parametrize("name", MODULES + WITH_LIBRARIES)
def test_every_entry_point_has_a_target(name: str) -> None:
    module = importlib.import_module(f"pyromq._kernel.{name}")
    entries = {
        f"{name.rpartition('.')[2]}.{entry}"
        for entry, value in vars(module).items()
        if not entry.startswith("_") and getattr(value, "__module__", None) == module.__name__
    }

    assert not entries - COVERED
