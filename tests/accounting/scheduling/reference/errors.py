"""The error for features that are not transcribed."""


class NotModelledError(Exception):
    """The answer needs a part of the scheduler that is not transcribed; the message names it."""
