"""What is driven with random inputs: every entry point of the kernel.

A target drives one or several entry points of one module once, as its random numbers say, while the
compiler's sanitizers watch. It raises what is wrong, and catches what the entry point may raise. To add one,
write a function under `@target("module.Name", ...)` into a module that is imported here:
`tests/fuzz/test_fuzz_kernel.py` fails for entry points that no target names.
"""

import ctypes
from random import Random

import kernel_ack_targets  # noqa: F401

# Their targets enter themselves.
import kernel_again_targets  # noqa: F401
import kernel_copy_targets  # noqa: F401
import kernel_due_targets  # noqa: F401
import kernel_fact_targets  # noqa: F401
import kernel_grpc_ack_targets  # noqa: F401
import kernel_grpc_send_targets  # noqa: F401
import kernel_grpc_signature_targets  # noqa: F401
import kernel_http2_targets  # noqa: F401
import kernel_inlet_targets  # noqa: F401
import kernel_load_targets  # noqa: F401
import kernel_message_targets  # noqa: F401
import kernel_offset_targets  # noqa: F401
import kernel_plain_targets  # noqa: F401
import kernel_pull_targets  # noqa: F401
import kernel_scan_targets  # noqa: F401
import kernel_send_targets  # noqa: F401
import kernel_shown_targets  # noqa: F401
import kernel_signature_targets  # noqa: F401
import kernel_tail_targets  # noqa: F401
import kernel_thread_targets  # noqa: F401
import kernel_unit_targets  # noqa: F401
from kernel_inputs import exact

#: Not among the targets: it reads one byte too many, to see that it is found.
PROOF = "proof.overread"


def overread(_random: Random) -> None:
    held = exact(bytes(100))
    address, length = held.buffer_info()
    ctypes.string_at(address, length + 1)
