"""Decisions: outcomes as the bytes of responses, and as records for logs and metrics."""

import msgspec
from msgspec.structs import replace

from tallygate.admission import response
from tallygate.admission.request import ALLOWED, Phase, Verdict
from tallygate.errors import TallygateError
from tallygate.review.cap_charge import CapObstacle
from tallygate.review.outcome import Outcome

_RETRY_AFTER_SECONDS = 1
_MAX_LOGGED_PROBLEMS = 8


class DecisionRecord(msgspec.Struct, frozen=True):
    """The record of one decision for logs and metrics: names, codes and the reason, never the object.

    `verdict` is `allow`, `deny` or `retry`; `rules` are the rules and caps that denied, `exceeded` the caps that a
    privileged user exceeded, `obstacles` the caps that gave no result. `policies` are those that denied or gave no
    result, as in `cap gpus`; `message` has the problems as the user gets them, or the reason of a retry.
    """

    uid: str
    user: str
    operation: str
    kind: str
    namespace: str
    name: str
    phase: Phase
    dry_run: bool
    verdict: str
    codes: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    audits: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    exceeded: tuple[str, ...] = ()
    obstacles: tuple[CapObstacle, ...] = ()
    policies: tuple[str, ...] = ()
    message: str = ""


class Decision(msgspec.Struct, frozen=True):
    """The response bytes, and their record."""

    body: bytes
    record: DecisionRecord


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


def encode_decision(outcome: Outcome, page: str = "") -> Decision:
    """Return the decision of an outcome; a denial has the address of a page, unless that is empty.

    Raises:
        UndecidedError: if no decision is possible.
    """
    undecided = outcome.undecided
    if undecided is not None and undecided.fails:
        cause = next((obstacle.cause for obstacle in outcome.obstacles if isinstance(obstacle.cause, Exception)), None)
        raise UndecidedError(
            undecided.reason, outcome.request.uid, outcome.obstacles, is_transient=undecided.is_transient
        ) from cause
    body = response.encode_response(outcome.request.uid, create_response(outcome, page))
    return Decision(body, _create_record(outcome))


def create_response(outcome: Outcome, page: str = "") -> response.Response:
    """Return the response that the API server gets, with the address of a page as `encode_decision` has it."""
    verdict, rejections, undecided = outcome.verdict, outcome.rejections, outcome.undecided
    if verdict is ALLOWED and undecided is None and not rejections:
        return response.ALLOWING  # most of all reviews
    subject = response.ResponseSubject(outcome.request, outcome.policy_set.reasons, page)
    if undecided is not None:
        # Without warnings: the request is sent again, and gets them then.
        status = response.create_retry_status(outcome.request, _RETRY_AFTER_SECONDS, undecided.reason)
        return response.create_response(subject, Verdict(), outcome.phase, status)
    if rejections:
        status = response.create_denial_status(subject, response.FORBIDDEN, "Forbidden", rejections)
        return response.create_response(subject, verdict, outcome.phase, status)
    if verdict.problems:
        status = response.create_denial_status(subject, response.UNPROCESSABLE, "Invalid", verdict.problems)
        return response.create_response(subject, verdict, outcome.phase, status)
    return response.create_response(subject, verdict, outcome.phase, None)


def _create_record(outcome: Outcome) -> DecisionRecord:
    request, rule_verdict, undecided = outcome.request, outcome.verdict, outcome.undecided
    problems = () if undecided is not None else outcome.problems
    record = DecisionRecord(
        uid=request.uid,
        user=request.user.name,
        operation=request.operation,
        kind=request.kind,
        namespace=request.namespace,
        name=request.name,
        phase=outcome.phase,
        dry_run=request.dry_run,
        verdict="retry" if undecided is not None else "deny" if problems else "allow",
    )
    if undecided is not None:
        policies = tuple(dict.fromkeys(f"cap {obstacle.cap}" for obstacle in outcome.obstacles))
        message = undecided.reason
    elif rule_verdict is ALLOWED and not problems:
        return record
    else:
        policies = tuple(dict.fromkeys(f"{problem.policy_kind} {problem.rule}" for problem in problems if problem.rule))
        message = "; ".join(map(str, problems[:_MAX_LOGGED_PROBLEMS]))
    return replace(
        record,
        codes=tuple(problem.code for problem in problems),
        rules=tuple(dict.fromkeys(problem.rule for problem in problems)),
        warnings=tuple(problem.code for problem in rule_verdict.warnings),
        audits=tuple(problem.code for problem in rule_verdict.audits),
        unknown=rule_verdict.unknown,
        exceeded=rule_verdict.exceeded,
        obstacles=outcome.obstacles,
        policies=policies,
        message=message,
    )
