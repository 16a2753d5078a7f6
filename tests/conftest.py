"""What holds for all tests."""

from hypothesis import settings

# A slow machine is no reason to fail: nothing here is timed.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
