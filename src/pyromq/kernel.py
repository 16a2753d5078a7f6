"""The choice between the compiled kernel and the pure Python version that does the same.

The kernel is compiled when the package is installed. Where that failed, or PYROMQ_PURE=1 is set, everything
works without it, several times slower.
"""

import os
from importlib.util import find_spec

#: The kernel's modules, by room; it is used whole or not at all.
MODULES = (
    "client.load",
    "client.plain_sends",
    "client.records",
    "client.thread_answers",
    "client.unique_ids",
    "codec.answers",
    "codec.crc32",
    "codec.frames",
    "codec.inlets",
    "codec.sha1",
    "http2.call_streams",
    "http2.plain_calls",
    "requests.acks",
    "requests.again_frames",
    "requests.ends",
    "requests.grpc_acks",
    "requests.grpc_sends",
    "requests.grpc_signatures",
    "requests.holds",
    "requests.offsets",
    "requests.popped_records",
    "requests.pulls",
    "requests.reading",
    "requests.refusals",
    "requests.send_backs",
    "requests.sends",
    "requests.shown",
    "requests.signatures",
    "spark.columns",
    "spark.scan",
    "spark.units",
    "storage.again",
    "storage.copies",
    "storage.diversions",
    "storage.due_rows",
    "storage.entry_runs",
    "storage.facts",
    "storage.in_flight",
    "storage.known",
    "storage.log_views",
    "storage.notes",
    "storage.plans",
    "storage.tails",
)

#: Modules that need a library besides; whoever uses one has another way where that is missing.
WITH_LIBRARIES = ("http2.sessions",)


def _missing() -> list[str]:
    return [name for name in MODULES if find_spec(f"pyromq._kernel.{name}") is None]


#: Why the pure version runs, None when the kernel does.
WHY_PURE: str | None = (
    "PYROMQ_PURE is set"
    if os.environ.get("PYROMQ_PURE", "0") not in ("", "0")
    else "the compiled kernel is not installed: install again where a C compiler and Python.h are"
    if _missing()
    else None
)
IS_COMPILED = WHY_PURE is None


def describe() -> str:
    """Return one line for people that says which speed runs."""
    return "compiled kernel" if WHY_PURE is None else f"pure Python ({WHY_PURE})"
