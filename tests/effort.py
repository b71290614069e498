"""The number of examples of a property test: a part of its own number by default, a multiple in `make thorough`."""

from hypothesis import settings

_DEFAULT = 100  # hypothesis' own number of examples: a profile with it tries exactly the number of a test


def examples(number: int) -> int:
    """Return a number scaled by the examples of the loaded profile, in hundredths, and at least one."""
    return max(1, number * settings().max_examples // _DEFAULT)
