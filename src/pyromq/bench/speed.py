"""The slots that run: the kernel's where it is installed, else those in Python."""

from typing import TYPE_CHECKING

from pyromq.kernel import IS_COMPILED

if TYPE_CHECKING or not IS_COMPILED:
    from pyromq.bench.slots import Counts, PullSlots, SendSlots, Templates, TransactionSlots
else:
    from pyromq._kernel.client.load import (
        Counts,
        PullSlots,
        SendSlots,
        Templates,
        TransactionSlots,
        read_with,
    )
    from pyromq.bench.frames import end_request, read_answer, read_next_offset

    read_with(read_answer, read_next_offset, end_request)

__all__ = ["Counts", "PullSlots", "SendSlots", "Templates", "TransactionSlots"]
