"""One review before the policies in force, and the answers there are to it: bytes to send, and what they say."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from webhook.accounting.problem import Problem
from webhook.admission import answer
from webhook.admission.capping import CapIndex
from webhook.admission.change import Change, Phase
from webhook.admission.selection import RuleIndex
from webhook.admission.verdict import ALLOWED, Verdict
from webhook.gate.arithmetic import exceeded, soft_warnings
from webhook.gate.charging import Outcome
from webhook.policy.model import PolicySet

_RETRY_AFTER_SECONDS = 1


class Record(msgspec.Struct, frozen=True):
    """What one decision was, for logs and metrics: names and codes, never the object.

    `verdict` is `allow`, `deny` or `busy`; `rules` are those that denied, `exceeded` the caps that a privileged user
    went over.
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


class Answer(msgspec.Struct, frozen=True):
    """Bytes to send, and what they say."""

    body: bytes
    record: Record


class InForce:
    """One policy set, indexed."""

    def __init__(self, policies: PolicySet) -> None:
        self.policies = policies
        self.rules = RuleIndex(policies)
        self.caps = CapIndex(policies)
        self.needs_labels = self.rules.needs_labels or self.caps.needs_labels
        self.whys: Mapping[str, str] = {rule.name: rule.why for rule in policies.rules} | {
            cap.name: cap.why for cap in policies.caps
        }


class Sitting(msgspec.Struct, frozen=True):
    """One review before the policies in force."""

    uid: str
    change: Change
    phase: Phase
    force: InForce
    verdict: Verdict


def _matter(sitting: Sitting) -> answer.Matter:
    return answer.Matter(sitting.change, sitting.force.whys)


def by_rules(sitting: Sitting) -> Answer:
    """What the rules say, and what was told beside."""
    verdict = sitting.verdict
    body = answer.rules_answer(sitting.uid, _matter(sitting), verdict, sitting.phase)
    return Answer(body, _record(sitting, "allow" if verdict.allowed else "deny", verdict.problems))


def busy(sitting: Sitting, why: str) -> Answer:
    """Nothing is decided, and trying again is right; `why` says what was in the way."""
    status = answer.busy(sitting.change, _RETRY_AFTER_SECONDS, why)
    body = answer.answer(sitting.uid, _matter(sitting), Verdict(), sitting.phase, status)
    return Answer(body, _record(sitting, "busy"))


def refused(sitting: Sitting, problems: Sequence[Problem]) -> Answer:
    """A cap refuses."""
    status = answer.denial(_matter(sitting), answer.FORBIDDEN, "Forbidden", problems)
    body = answer.answer(sitting.uid, _matter(sitting), sitting.verdict, sitting.phase, status)
    return Answer(body, _record(sitting, "deny", tuple(problems)))


def told(sitting: Sitting, problems: Iterable[Problem]) -> Answer:
    """Allowed, with warnings beside those of the rules."""
    warnings = (*sitting.verdict.warnings, *problems)
    if warnings != sitting.verdict.warnings:
        sitting = replace(sitting, verdict=dataclasses.replace(sitting.verdict, warnings=warnings))
    return by_rules(sitting)


def granted(sitting: Sitting, outcome: Outcome) -> Answer:
    """Every cap has room; above `soft` with a warning."""
    warnings = tuple(warning for booked in outcome.granted for warning in soft_warnings(booked))
    over = tuple(booked.asked.counted.cap.name for booked in outcome.granted if exceeded(booked))
    if warnings or over:
        verdict = dataclasses.replace(sitting.verdict, warnings=(*sitting.verdict.warnings, *warnings), exceeded=over)
        sitting = replace(sitting, verdict=verdict)
    body = answer.answer(sitting.uid, _matter(sitting), sitting.verdict, sitting.phase, None)
    return Answer(body, _record(sitting, "allow"))


def _record(sitting: Sitting, verdict: str, problems: tuple[Problem, ...] = ()) -> Record:
    change, judged = sitting.change, sitting.verdict
    record = Record(
        uid=sitting.uid,
        user=change.user.name,
        operation=change.operation,
        kind=change.kind,
        namespace=change.namespace,
        name=change.name,
        phase=sitting.phase,
        dry_run=change.dry_run,
        verdict=verdict,
    )
    if judged is ALLOWED and not problems:
        return record
    return replace(
        record,
        codes=tuple(problem.code for problem in problems),
        rules=tuple(dict.fromkeys(problem.rule for problem in problems)),
        warnings=tuple(problem.code for problem in judged.warnings),
        audits=tuple(problem.code for problem in judged.audits),
        unknown=judged.unknown,
        exceeded=judged.exceeded,
    )
