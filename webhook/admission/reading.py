"""Reading: how one change is judged, and its object, decoded when somebody asks for it, and once."""

from webhook.accounting.fingerprint import Fingerprint, compute_fingerprint
from webhook.admission.change import Change
from webhook.admission.review import ReviewError
from webhook.admission.workloads import Judged, Target, target
from webhook.objects.core import Pod


def decoded(found: Target, change: Change, raw: object) -> Judged:
    """The typed object.

    Raises:
        ReviewError: it is not of the kind it says it is, or nests too deep.
    """
    try:
        return found.decode(raw)  # type: ignore[arg-type]  # bytes or msgspec.Raw, which decode takes alike
    except (ValueError, RecursionError) as error:
        raise ReviewError(f"the object is not a {change.kind}: {error}") from None


class Reading:
    """One change; `target` is None where no rule and no cap has anything to say about it."""

    __slots__ = ("_judged", "_likeness", "change", "target")

    def __init__(self, change: Change) -> None:
        self.change = change
        self.target = target(change)
        self._judged: Judged | None = None
        self._likeness: tuple[Fingerprint | None] | None = None

    def judged(self, found: Target) -> Judged:
        """The object, which is `found` to be judged so.

        Raises:
            ReviewError: it is not of the kind it says it is, or nests too deep.
        """
        if self._judged is None:
            self._judged = decoded(found, self.change, self.change.object)
        return self._judged

    def likeness(self, pod: Pod) -> Fingerprint | None:
        """That of the object's own pod."""
        if self._likeness is None:
            self._likeness = (compute_fingerprint(pod.spec) if pod.spec is not None else None,)
        return self._likeness[0]
