"""What this transcription does not know."""


class NotModelledError(Exception):
    """The answer would need a part of the scheduler that is not transcribed, and this names it."""
