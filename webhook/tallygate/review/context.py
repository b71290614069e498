"""The context of one review: the request, the active policies, and what is known of the answer so far."""

import dataclasses
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from tallygate.accounting.problem import Problem
from tallygate.admission.implied_requests import NO_IMPLIED, ImpliedRequests
from tallygate.admission.request import AdmissionRequest, Phase, Verdict
from tallygate.errors import TallygateError
from tallygate.review.active_policies import ActivePolicySet
from tallygate.review.cap_charge import CapObstacle


class UndecidedError(TallygateError):
    """No decision was possible, for a reason other than the user's request: the cluster's failurePolicy decides.

    `uid` is that of the review. `obstacles` are the caps that gave no result; empty for a dry run. `is_transient` is
    set if another replica, or this one a second later, may decide.
    """

    def __init__(
        self, message: str, uid: str = "", obstacles: tuple[CapObstacle, ...] = (), *, is_transient: bool = False
    ) -> None:
        super().__init__(message)
        self.uid = uid
        self.obstacles = obstacles
        self.is_transient = is_transient


class ReviewContext(msgspec.Struct, frozen=True):
    """One review under the active policies; `implied` are the implied requests in its namespace."""

    request: AdmissionRequest
    phase: Phase
    policy_set: ActivePolicySet
    verdict: Verdict
    implied: ImpliedRequests = NO_IMPLIED


def add_warnings(context: ReviewContext, problems: Iterable[Problem], unknown: str = "") -> ReviewContext:
    """Return the context with more warnings; `unknown` is a message on what was not evaluated, or empty."""
    warnings = (*context.verdict.warnings, *problems)
    if warnings == context.verdict.warnings and not unknown:
        return context
    unknowns = (*context.verdict.unknown, unknown) if unknown else context.verdict.unknown
    return replace(context, verdict=dataclasses.replace(context.verdict, warnings=warnings, unknown=unknowns))


def describe_unevaluated(cap: str, reason: str) -> str:
    """Return the message about a cap that cannot reject a request, and was not evaluated for this reason."""
    return f"cap {cap} was not evaluated, and has no hard limit on this request: {reason}"
