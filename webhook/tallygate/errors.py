"""The base class of every exception that tallygate raises.

Problems of a user's object are data (`tallygate.accounting.problem`). An exception means that an operation could not be
done or decided. Each package derives its own exceptions from this class, so that a caller can distinguish them from a
crash.
"""


class TallygateError(Exception):
    """An operation that could not be done. The text contains the subject, the field, the reason and a valid form."""
