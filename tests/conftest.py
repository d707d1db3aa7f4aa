"""What all tests share: no deadline on single generated cases, for these machines are shared and pause."""

from hypothesis import settings

settings.register_profile("shared-machine", deadline=None)
settings.load_profile("shared-machine")
