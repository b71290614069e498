"""A fault: why a text is not a manifest, and where."""

from webhook.cli.manifest.nodes import Place
from webhook.errors import TallygateError


class Fault(TallygateError):  # noqa: N818 -- it is not our error: it becomes a finding about the file
    """A text that cannot be read as manifests.

    `code` is the number of a `webhook.accounting.problem.Code`; `place` where reading stopped.
    """

    def __init__(self, code: str, place: Place, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.place = place
        self.message = message
