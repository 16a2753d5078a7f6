"""Version of PyroMQ, which servers tell besides the version of RocketMQ that they speak."""

from typing import Final

#: The same as in pyproject.toml; a test compares them.
VERSION: Final = "0.1.0"
