"""For how long a broker runs, as its figures say: the time of day is in no answer, but this is."""

import re
from collections.abc import Mapping
from typing import Final

_RUNTIME: Final = re.compile(r"\[ ([\d.,]+) days, (\d+) hours, (\d+) minutes, (\d+) seconds \]")


def uptime_s(figures: Mapping[str, str]) -> int | None:
    """Return for how many whole seconds a broker runs; None if it does not say."""
    runtime = _RUNTIME.fullmatch(figures.get("runtime", "").strip())
    if runtime is None:
        return None
    # Java writes thousands of days as its locale does.
    days, hours, minutes, seconds = (int(re.sub(r"[.,]", "", part)) for part in runtime.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
