"""All checks, in the order in which they are listed."""

from typing import Final

from pyromq.doctor.checks.check import Check

CHECKS: Final[tuple[Check, ...]] = ()
