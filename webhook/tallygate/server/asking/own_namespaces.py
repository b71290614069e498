"""The namespaces that an asker is offered: those in which he may list pods, or create them.

Kubernetes has no list of them: the API server's authorizers only say of one user and one namespace whether he may. So
each namespace takes one or two reviews, for at most `MAX_REVIEWED` of them. Roles and their bindings are not read: they
say nothing of other authorizers, and would need a right to read who may do what in the whole cluster.

The answer has only names of namespaces in which the API server has just allowed the asker something. Which namespaces
are reviewed does not depend on what he sends, so that neither the answer nor its time says whether a name exists.
"""

from collections.abc import Callable, Iterable
from typing import Final, Literal

from tallygate.answers.columns import API_VERSION
from tallygate.answers.namespace_list import AskNamespaces, NamespaceNames, OfferedNamespace
from tallygate.cluster import kinds
from tallygate.server.asking.access import AccessReviewer, ResourceAccess
from tallygate.server.asking.ask_error import AskError
from tallygate.server.asking.identity import Asker

MAX_REVIEWED: Final = 75
"""The namespaces that are reviewed for one answer: three quarters of the reviews that a user has at once."""

REVIEW_SECONDS: Final = 5.0
"""The time after which no further namespace is reviewed."""

_TOO_LONG: Final = "namespaces that are not here: the API server takes long to say what you may do"
_RIGHTS: Final[tuple[Literal["list", "create"], ...]] = ("list", "create")


def offer_namespaces(
    reviewer: AccessReviewer, asker: Asker, read_names: Callable[[], NamespaceNames], monotonic: Callable[[], float]
) -> AskNamespaces:
    """Return the namespaces of an asker, those with a cap first: all of them if he may list pods in all.

    What the API server does not say in time, or at all, is named, as are namespaces that are too many. `read_names`
    returns those of the cluster.
    """
    offered: list[OfferedNamespace] = []
    unknown: list[str] = []
    try:
        found = read_names()
        if reviewer.may(asker, ResourceAccess("list", "", kinds.PODS)):
            offered += (OfferedNamespace(name, "list", name in found.capped) for name in found.names)
        else:
            candidates, left_out = _choose_candidates(found)
            unknown += left_out
            until = monotonic() + REVIEW_SECONDS
            for name in candidates:
                if monotonic() > until:
                    unknown.append(_TOO_LONG)
                    break
                right = _find_right(reviewer, asker, name)
                if right is not None:
                    offered.append(OfferedNamespace(name, right, name in found.capped))
    except AskError as error:
        unknown.append(f"namespaces that are not here: {error.message}")
    offered.sort(key=lambda each: (not each.capped, each.namespace))
    return AskNamespaces(API_VERSION, "AskNamespaces", offered, unknown)


def _choose_candidates(found: NamespaceNames) -> tuple[Iterable[str], list[str]]:
    """Return the namespaces to review, and a text for those that are too many."""
    if len(found.names) <= MAX_REVIEWED:
        return found.names, []
    if len(found.capped) <= MAX_REVIEWED:
        return sorted(found.capped), [f"namespaces without a cap: the cluster has more than {MAX_REVIEWED} namespaces"]
    return (), [f"the namespaces in which you have a right: more than {MAX_REVIEWED} have a cap"]


def _find_right(reviewer: AccessReviewer, asker: Asker, namespace: str) -> Literal["list", "create"] | None:
    allowed = (right for right in _RIGHTS if reviewer.may(asker, ResourceAccess(right, "", kinds.PODS, namespace)))
    return next(allowed, None)
