"""The process in which the kernel is fuzzed: `tools/fuzz_kernel.py` starts it, with the sanitizers loaded.

Each execution has random numbers of its own, made from the seed and its number, so one can be run again
alone.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from itertools import count as count_from
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

from kernel_inputs import KERNEL, TARGETS
from kernel_targets import PROOF, overread

#: Executions between two looks at the clock.
TURN = 50


class Watched:
    """Finds the kernel's modules in the folder where they were built with sanitizers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> ModuleSpec | None:
        """Return where a module of the kernel is; its rooms and other modules are found by others."""
        room, _, _ = name.removeprefix(f"{KERNEL}.").rpartition(".")
        if not name.startswith(f"{KERNEL}.") or not room:
            return None
        found = PathFinder.find_spec(name, [str(self._folder / room)])
        if found is None:
            # Not None: the one without sanitizers would be found next.
            raise ModuleNotFoundError(f"{name} was not built with sanitizers")
        return found


def fuzz(names: Sequence[str], seed: int, first: int, count: int, seconds: float, progress: Path) -> int:
    """Run the targets in turns until the time is over or each had its count; return how many ran."""
    ends_at = time.monotonic() + seconds
    executions = 0
    targets = TARGETS | {PROOF: overread}
    with progress.open("r+b", buffering=0) as note:
        for turn, name in zip(count_from(), cycle(names), strict=False):
            begin = first + turn // len(names) * TURN
            if time.monotonic() >= ends_at or begin >= first + count:
                return executions
            for execution in range(begin, min(begin + TURN, first + count)):
                # Read by who started this process, should it end here.
                note.seek(0)
                note.write(f"{name} {execution}".ljust(80).encode())
                targets[name](Random(f"{seed} {name} {execution}"))
                executions += 1
    return executions


def main() -> None:
    """Fuzz the modules in a folder; whatever is raised ends the run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kernel", type=Path, required=True)
    parser.add_argument("--progress", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--first", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--only", nargs="*", required=True)
    asked = parser.parse_args()
    sys.meta_path.insert(0, Watched(asked.kernel))  # type: ignore[arg-type]
    executions = fuzz(
        asked.only or list(TARGETS), asked.seed, asked.first, asked.count, asked.seconds, asked.progress
    )
    print(executions)


if __name__ == "__main__":
    main()
