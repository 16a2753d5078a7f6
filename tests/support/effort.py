"""How often tests do what could go on for ever: kills, power cuts, damage, made-up inputs.

`make test` does a little of each. `make torture-store` does six times as much of it with the same tests, and
goes on with seeds of its own: PYROMQ_EFFORT says how many times.
"""

import os
from typing import Final

EFFORT: Final = int(os.environ.get("PYROMQ_EFFORT", "1"))


def times(count: int) -> int:
    """Return how often to do what `make test` does that often."""
    return count * EFFORT
