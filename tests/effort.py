"""How many examples a property test tries: a part of what it names in every run, a multiple in `make thorough`."""

from hypothesis import settings

_WHOLE = 100  # hypothesis' own number of examples: a profile that has it tries just what a test names


def examples(number: int) -> int:
    """As many hundredths of so many as the profile in force has examples, and one at least."""
    return max(1, number * settings().max_examples // _WHOLE)
