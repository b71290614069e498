"""Decisions: the review context, the response bytes, and the record for logs and metrics."""

import dataclasses
from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from tallygate.accounting.problem import Problem
from tallygate.admission import response
from tallygate.admission.request import ALLOWED, Phase, Verdict
from tallygate.review.cap_charge import CapObstacle, ChargeResult
from tallygate.review.cap_messages import (
    create_new_cap_warning,
    create_soft_limit_warnings,
    describe_prerequisite,
    is_newly_exceeded,
)
from tallygate.review.context import ReviewContext, UndecidedError, add_warnings, describe_unevaluated
from tallygate.state.ledger.reserve import Prerequisite
from tallygate.state.ports import StoreUnavailableError, StoreUnreachableError

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


def _create_message_context(context: ReviewContext) -> response.ResponseSubject:
    return response.ResponseSubject(context.request, context.policy_set.reasons)


def decide_by_rules(context: ReviewContext) -> Decision:
    """Return the decision of the rules, with all warnings."""
    verdict = context.verdict
    body = response.encode_rule_response(_create_message_context(context), verdict, context.phase)
    return Decision(body, _create_record(context, "allow" if verdict.is_allowed else "deny", verdict.problems))


def retry_later(context: ReviewContext, reason: str, obstacles: tuple[CapObstacle, ...] = ()) -> Decision:
    """Return a response without a decision that requests a retry, for this reason."""
    status = response.create_retry_status(context.request, _RETRY_AFTER_SECONDS, reason)
    body = response.encode_response(_create_message_context(context), Verdict(), context.phase, status)
    policies = tuple(dict.fromkeys(f"cap {obstacle.cap}" for obstacle in obstacles))
    record = replace(_create_record(context, "retry"), obstacles=obstacles, policies=policies, message=reason)
    return Decision(body, record)


def deny_by_caps(
    context: ReviewContext, problems: Sequence[Problem], obstacles: tuple[CapObstacle, ...] = ()
) -> Decision:
    """Return the denial by a cap; `obstacles` are those of other caps."""
    status = response.create_denial_status(_create_message_context(context), response.FORBIDDEN, "Forbidden", problems)
    body = response.encode_response(_create_message_context(context), context.verdict, context.phase, status)
    record = _create_record(context, "deny", tuple(problems))
    return Decision(body, replace(record, obstacles=obstacles) if obstacles else record)


def decide_with_warnings(context: ReviewContext, problems: Iterable[Problem], unknown: str = "") -> Decision:
    """Return the decision of the rules, with more warnings."""
    return decide_by_rules(add_warnings(context, problems, unknown))


def allow_under_caps(context: ReviewContext, result: ChargeResult) -> Decision:
    """Return the decision that every cap allows the pod; with a warning above a soft limit.

    The answer also names each cap without a hard limit that was not evaluated.
    """
    for obstacle in result.unevaluated:
        context = add_warnings(context, (), describe_unevaluated(obstacle.cap, str(obstacle.cause)))
    counted = [booked for booked in result.reserved if not booked.ledger.initializer]
    new_caps = [booked for booked in result.reserved if booked.ledger.counts_first and booked.charge.is_limited]
    warnings = (
        *(warning for booked in counted for warning in create_soft_limit_warnings(booked)),
        *(create_new_cap_warning(booked) for booked in new_caps),
    )
    exceeded_caps = tuple(booked.charge.cap.definition.name for booked in counted if is_newly_exceeded(booked))
    if warnings or exceeded_caps:
        verdict = dataclasses.replace(
            context.verdict, warnings=(*context.verdict.warnings, *warnings), exceeded=exceeded_caps
        )
        context = replace(context, verdict=verdict)
    body = response.encode_response(_create_message_context(context), context.verdict, context.phase, None)
    return Decision(body, _create_record(context, "allow"))


def _create_record(context: ReviewContext, verdict: str, problems: tuple[Problem, ...] = ()) -> DecisionRecord:
    request, rule_verdict = context.request, context.verdict
    record = DecisionRecord(
        uid=request.uid,
        user=request.user.name,
        operation=request.operation,
        kind=request.kind,
        namespace=request.namespace,
        name=request.name,
        phase=context.phase,
        dry_run=request.dry_run,
        verdict=verdict,
    )
    if rule_verdict is ALLOWED and not problems:
        return record
    return replace(
        record,
        codes=tuple(problem.code for problem in problems),
        rules=tuple(dict.fromkeys(problem.rule for problem in problems)),
        warnings=tuple(problem.code for problem in rule_verdict.warnings),
        audits=tuple(problem.code for problem in rule_verdict.audits),
        unknown=rule_verdict.unknown,
        exceeded=rule_verdict.exceeded,
        policies=tuple(dict.fromkeys(f"{problem.policy_kind} {problem.rule}" for problem in problems if problem.rule)),
        message="; ".join(map(str, problems[:_MAX_LOGGED_PROBLEMS])),
    )


def decide_without_result(context: ReviewContext, obstacles: tuple[CapObstacle, ...]) -> Decision:
    """Return the response that requests a retry: for the error of a store, or else for the first obstacle.

    Raises:
        UndecidedError: if a store is unavailable.
    """
    obstacle = next((obstacle for obstacle in obstacles if not isinstance(obstacle.cause, Prerequisite)), obstacles[0])
    if isinstance(obstacle.cause, StoreUnavailableError):
        raise UndecidedError(
            f"the ledgers are unreachable: {obstacle.cause}",
            context.request.uid,
            () if context.request.dry_run else obstacles,
            is_transient=isinstance(obstacle.cause, StoreUnreachableError),
        ) from obstacle.cause
    if isinstance(obstacle.cause, Prerequisite):
        return retry_later(context, describe_prerequisite(obstacle.cap, obstacle.cause, obstacle.activation), obstacles)
    return retry_later(context, str(obstacle.cause), obstacles)
