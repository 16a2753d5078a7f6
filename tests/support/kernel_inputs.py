"""Random and mutated inputs for the kernel, and the table of the targets that take them.

Inputs go in as `exact(...)` where an entry point takes any buffer: `bytes` have one to spare at the end,
which the sanitizer would let it read.
"""

import ctypes
import importlib
from array import array
from collections.abc import Callable, Sequence
from random import Random
from types import ModuleType

from pyromq.kernel import MODULES, WITH_LIBRARIES

Target = Callable[[Random], None]
#: By their first name.
TARGETS: dict[str, Target] = {}
#: Every entry point that a target drives.
COVERED: set[str] = set()

KERNEL = "pyromq._kernel"
#: Numbers at which sums, shifts and comparisons go wrong.
EDGES = sorted(
    {
        sign * ((1 << bits) + step)
        for bits in (0, 7, 8, 15, 16, 31, 32, 62)
        for step in (-1, 0, 1)
        for sign in (1, -1)
    }
    | {(1 << 63) - 1, -(1 << 63)}
)


def target(*names: str) -> Callable[[Target], Target]:
    """Name the entry points that the function drives."""

    def enter(function: Target) -> Target:
        TARGETS[names[0]] = function
        COVERED.update(names)
        return function

    return enter


def module(name: str) -> ModuleType:
    """Return a module of the kernel by its last name, imported when the first target asks for it."""
    [found] = [module for module in MODULES + WITH_LIBRARIES if module.rpartition(".")[2] == name]
    return importlib.import_module(f"{KERNEL}.{found}")


def exact(data: bytes) -> "array[int]":
    """Return a buffer that ends where its data ends, for the sanitizer to see a byte read behind it."""
    # A slice is allocated to measure; the array itself has room to grow.
    return array("B", data)[:]


def exact_bytes(data: bytes) -> bytes:
    """Return bytes whose one to spare the sanitizer guards, for entry points that take bytes alone."""
    held = bytes(bytearray(data))
    guard = getattr(ctypes.CDLL(None), "__asan_poison_memory_region", None)
    # The empty one and those of one byte are shared by the whole process.
    if guard is not None and len(held) > 1:
        guard(ctypes.c_void_p(id(held) + bytes.__basicsize__ - 1 + len(held)), ctypes.c_size_t(1))
    return held


def number(random: Random, bits: int = 64) -> int:
    """Return a signed number, often one at an edge."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if random.random() < 0.5:
        return max(low, min(high, random.choice(EDGES)))
    return random.randint(low, high) >> random.randrange(bits)


def mutated(random: Random, data: bytes) -> bytes:
    """Return the data with a few bytes changed, cut, repeated, or replaced by a length that lies."""
    mutant = bytearray(data)
    for _ in range(random.choice((0, 1, 1, 2, 3, 8))):
        _mutate(random, mutant)
    return bytes(mutant)


def _mutate(random: Random, mutant: bytearray) -> None:
    at = random.randrange(len(mutant) + 1)
    kind = random.randrange(6)
    if kind == 0 and at < len(mutant):
        mutant[at] ^= 1 << random.randrange(8)
    elif kind == 1 and at < len(mutant):
        mutant[at] = random.choice((0, 1, 2, 0x22, 0x2C, 0x5C, 0x7B, 0x7D, 0x7F, 0x80, 0xFF))
    elif kind == 2:
        width = random.choice((1, 2, 4, 8))
        value = number(random, 8 * width)
        mutant[at : at + width] = value.to_bytes(width, "big", signed=True)
    elif kind == 3:
        del mutant[at:]
    elif kind == 4:
        del mutant[at : at + random.randrange(1, 9)]
    else:
        begin = random.randrange(len(mutant) + 1)
        mutant[at:at] = mutant[begin : begin + random.randrange(1, 65)]


def some(random: Random, seeds: Sequence[bytes], count_max: int = 4) -> bytes:
    """Return a few of the seeds in a row, mutated together or one by one."""
    picked = [random.choice(seeds) for _ in range(random.randint(1, count_max))]
    if random.random() < 0.5:
        return mutated(random, b"".join(picked))
    return b"".join(mutated(random, one) if random.random() < 0.5 else one for one in picked)


def cuts(random: Random, data: bytes) -> list[bytes]:
    """Return the data in pieces, as a socket would give it."""
    ends = sorted(random.randrange(len(data) + 1) for _ in range(random.randrange(4)))
    return [data[a:b] for a, b in zip([0, *ends], [*ends, len(data)], strict=True)]


def expect(holds: bool, what: str) -> None:
    """Raise unless it holds."""
    if not holds:
        raise AssertionError(what)


def mostly(random: Random, usual: int, *others: int) -> int:
    """Return the usual number, nine times of ten."""
    return usual if random.random() < 0.9 else random.choice(others)
