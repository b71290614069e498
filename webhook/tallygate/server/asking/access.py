"""What an asker may see: the answers of the API server's authorizers to SubjectAccessReviews (authorization.k8s.io/v1).

Who may create a kind in a namespace may ask about it; who may list pods there sees their names; who may list nodes or
namespaces sees those. Only the API server knows every authorizer, so that nothing is derived from roles here.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from tallygate.kube.client import ClientConfig
from tallygate.server.asking.api_reviews import CallLimit, KeptAnswers, ReviewClient
from tallygate.server.asking.identity import Asker
from tallygate.server.asking.rate import RateLimit
from tallygate.server.token_buckets import TokenRate

REVIEWS_OF_USER: Final = TokenRate(burst=200, interval=1 / 50)
"""The rate of reviews of one user, whose answers are not kept: an ask about many namespaces has one for each."""

MAX_REVIEWS_AT_A_TIME: Final = 16
"""Reviews in progress, of all users; each takes milliseconds."""

_MAX_NAME_LENGTH: Final = 253  # of a name in Kubernetes (apimachinery validation, DNS1123SubdomainMaxLength)


class ResourceAccess(NamedTuple):
    """A verb on a resource by its group and plural (ResourceAttributes).

    An empty namespace means all of them, or a resource without namespaces; an empty name means all objects.
    """

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


class _AccessReviewStatus(msgspec.Struct, frozen=True):
    """A status without `reason` and `evaluationError`: they name roles and bindings."""

    allowed: bool = False
    denied: bool = False


class AccessReviewer:
    """The rights of askers; for any thread. `monotonic` returns seconds."""

    def __init__(self, client_config: ClientConfig, monotonic: Callable[[], float]) -> None:
        group, resource, kind = "authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"
        self._client = ReviewClient(client_config, group, resource, kind, "what you may do", _AccessReviewStatus)
        self._answers: KeptAnswers[tuple[Asker, ResourceAccess], bool] = KeptAnswers(monotonic)
        rate = RateLimit(REVIEWS_OF_USER, "too many namespaces and kinds of this user", monotonic)
        self._limit = CallLimit(MAX_REVIEWS_AT_A_TIME, rate)

    def may(self, asker: Asker, access: ResourceAccess) -> bool:
        """Return whether the asker has this access; a text that cannot be a name in Kubernetes needs no review.

        Raises:
            AskError: with 429 over the limits of reviews; with 503 if the API server cannot be asked.
        """
        if not all(text.isascii() and len(text) <= _MAX_NAME_LENGTH for text in access):
            return False
        return self._answers.get(
            (asker, access), lambda: self._limit.run(asker.username, lambda: self._review(asker, access))
        )

    def _review(self, asker: Asker, access: ResourceAccess) -> bool:
        spec: dict[str, Any] = {
            "user": asker.username,
            "uid": asker.uid,
            "groups": asker.groups,
            "extra": dict(asker.extra),
            "resourceAttributes": access._asdict(),
        }
        status = self._client.create(spec)
        return status.allowed and not status.denied
