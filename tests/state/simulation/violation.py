"""What is raised when an invariant does not hold."""


class ViolationError(AssertionError):
    """An invariant is broken; the text says which, and for whom."""
