"""Reading: how one change is judged, and its object, decoded when somebody asks for it, and once."""

from webhook.accounting.fingerprint import Fingerprint, compute_fingerprint
from webhook.admission.change import AdmissionRequest
from webhook.admission.review import ReviewError
from webhook.admission.workloads import DecodedObject, ReviewTarget, find_review_target
from webhook.objects.core import Pod


def decode_object(target: ReviewTarget, request: AdmissionRequest, raw: object) -> DecodedObject:
    """The typed object.

    Raises:
        ReviewError: it is not of the kind it says it is, or nests too deep.
    """
    try:
        return target.decode(raw)  # type: ignore[arg-type]  # bytes or msgspec.Raw, which decode takes alike
    except (ValueError, RecursionError) as error:
        raise ReviewError(f"the object is not a {request.kind}: {error}") from None


class DecodedRequest:
    """One change; `target` is None where no rule and no cap has anything to say about it."""

    __slots__ = ("_fingerprint", "_object", "request", "target")

    def __init__(self, request: AdmissionRequest) -> None:
        self.request = request
        self.target = find_review_target(request)
        self._object: DecodedObject | None = None
        self._fingerprint: tuple[Fingerprint | None] | None = None

    def get_object(self, target: ReviewTarget) -> DecodedObject:
        """The object, which is `found` to be judged so.

        Raises:
            ReviewError: it is not of the kind it says it is, or nests too deep.
        """
        if self._object is None:
            self._object = decode_object(target, self.request, self.request.object)
        return self._object

    def get_fingerprint(self, pod: Pod) -> Fingerprint | None:
        """That of the object's own pod."""
        if self._fingerprint is None:
            self._fingerprint = (compute_fingerprint(pod.spec) if pod.spec is not None else None,)
        return self._fingerprint[0]
