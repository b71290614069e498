"""The outcome of a review: what happens to an object, and why."""

import dataclasses
from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from tallygate.accounting.problem import Problem
from tallygate.admission.implied_requests import NO_IMPLIED, ImpliedRequests
from tallygate.admission.request import AdmissionRequest, Phase, Verdict
from tallygate.policy.model import Enforcement
from tallygate.review.active_policies import ActivePolicySet
from tallygate.review.cap_charge import CapObstacle
from tallygate.review.charged_requests import RequestCharges
from tallygate.review.planned_pods import PlannedPods
from tallygate.review.quota_forecast import NO_EXPECTED_CLAIMS, ExpectedClaims


class Undecided(msgspec.Struct, frozen=True):
    """The reason why there is no decision.

    The client is asked to send the request again, unless it `fails`: then the cluster's failurePolicy decides.
    `is_transient` is set if another replica, or this one a second later, may decide.
    """

    reason: str
    fails: bool = False
    is_transient: bool = False


class Outcome(msgspec.Struct, frozen=True):
    """What happens to the object of a request under the active policies.

    `request` is the reviewed one: for a scale request the update of the workload. `verdict` has the problems, warnings
    and audits of rules, the warnings of caps and forecasts, what could not be evaluated, and the patch. `rejections`
    are the problems by which caps deny. `undecided` is set if there is no decision, `obstacles` are the caps that gave
    no result. `implied` are the implied requests of the namespace.

    With `charges`, the request is allowed if all caps have room for them: they are to be reserved, and
    `review.conclude` returns the outcome with the result. `warnings` are added if it is allowed, and the forecasts of
    the `claims` of its pod. `planned` are all pods of an object that is read from a file.
    """

    request: AdmissionRequest
    phase: Phase
    policy_set: ActivePolicySet
    verdict: Verdict
    implied: ImpliedRequests = NO_IMPLIED
    rejections: tuple[Problem, ...] = ()
    undecided: Undecided | None = None
    obstacles: tuple[CapObstacle, ...] = ()
    charges: RequestCharges | None = None
    warnings: tuple[Problem, ...] = ()
    claims: ExpectedClaims = NO_EXPECTED_CLAIMS
    planned: PlannedPods | None = None

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems that deny the request: those of caps, else those of rules."""
        return self.rejections or self.verdict.problems

    @property
    def is_allowed(self) -> bool:
        """Whether the request is allowed; with charges, as far as all caps have room for them."""
        return self.undecided is None and not self.problems

    def list_findings(self) -> Iterator[tuple[Enforcement, Problem]]:
        """Yield all problems, each with its enforcement."""
        for enforcement, problems in (
            (Enforcement.DENY, (*self.verdict.problems, *self.rejections)),
            (Enforcement.WARN, self.verdict.warnings),
            (Enforcement.AUDIT, self.verdict.audits),
        ):
            for problem in problems:
                yield enforcement, problem

    def reject(self, problems: Iterable[Problem], obstacles: tuple[CapObstacle, ...] = ()) -> "Outcome":
        """Return the outcome that caps deny the request; `obstacles` are those of other caps."""
        return replace(self, rejections=tuple(problems), obstacles=obstacles, charges=None)

    def retry(self, reason: str, obstacles: tuple[CapObstacle, ...] = ()) -> "Outcome":
        """Return the outcome that there is no decision yet, for this reason."""
        return replace(self, undecided=Undecided(reason), obstacles=obstacles, charges=None)

    def fail(self, reason: str, obstacles: tuple[CapObstacle, ...] = (), *, is_transient: bool = False) -> "Outcome":
        """Return the outcome that no decision is possible, for a reason other than the user's request."""
        return replace(
            self, undecided=Undecided(reason, fails=True, is_transient=is_transient), obstacles=obstacles, charges=None
        )

    def warn(self, problems: Iterable[Problem], unknown: str = "") -> "Outcome":
        """Return the outcome with more warnings; `unknown` is a message on what was not evaluated, or empty."""
        warnings = (*self.verdict.warnings, *problems)
        if warnings == self.verdict.warnings and not unknown:
            return self
        unknowns = (*self.verdict.unknown, unknown) if unknown else self.verdict.unknown
        return replace(self, verdict=dataclasses.replace(self.verdict, warnings=warnings, unknown=unknowns))


def describe_unevaluated(cap: str, reason: str) -> str:
    """Return the message about a cap that cannot reject a request, and was not evaluated for this reason."""
    return f"cap {cap} was not evaluated, and has no hard limit on this request: {reason}"


def describe_unlabelled(cap: str, namespace: str) -> str:
    """Return the message about a cap that was not evaluated, since the labels of the namespace are unknown."""
    return (
        f"cap {cap} was not evaluated: it selects namespaces by label, and the labels of namespace {namespace} are "
        "unknown here"
    )
