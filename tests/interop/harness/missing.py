"""What to do where a toolchain or a registry is missing."""

import os
from typing import NoReturn

import pytest

from harness.toolchains import Unavailable


def unavailable(reason: Unavailable) -> NoReturn:
    """Skip the test and say why; in CI, where everything must be there, fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must have every toolchain: {reason}", pytrace=False)
    pytest.skip(str(reason))
