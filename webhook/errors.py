"""The root of every exception that tallygate raises itself.

Problems with what a user asks for are data (`webhook.accounting.problem`). An exception means that something could
not be done or could not be decided. Each room derives its own from here, so that a caller can tell ours from a crash.
"""


class TallygateError(Exception):
    """Something could not be done, and this text says what, where, why, and what would pass."""
