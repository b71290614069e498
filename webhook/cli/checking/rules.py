"""What the rules say of an object, and what they fill in before the API server looks at it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from webhook.admission.change import Phase
from webhook.admission.decide import evaluate_request
from webhook.admission.selection import Labels, RuleIndex
from webhook.admission.verdict import Verdict
from webhook.cli.checking.known import Known, retyped
from webhook.cli.checking.merging import Said
from webhook.cli.checking.patching import applied
from webhook.cli.report.finding import Level
from webhook.gate.scheduling_snapshot import SnapshotProvider, check_schedulability
from webhook.policy.model import Enforcement, Equality, PolicySet


@dataclass(frozen=True, slots=True)
class Judged:
    """The object as it would be stored, what was said of it, and what could not be judged."""

    known: Known
    said: tuple[Said, ...]
    unknown: tuple[str, ...]


class Rules:
    """A policy set's rules, ready to be asked."""

    def __init__(self, policies: PolicySet) -> None:
        self._index = RuleIndex(policies)
        self._filling = RuleIndex(_only_filling(policies))
        self._whys: Mapping[str, str] = {rule.name: rule.reason for rule in policies.rules}

    def judge(self, known: Known, labels: Labels | None) -> Judged:
        """Put an object's creation before both webhooks; `labels` are its namespace's, None when unknown."""
        patch = evaluate_request(known.change, self._filling, labels, Phase.MUTATING).patch
        if patch:
            known = retyped(known, applied(known.body, patch))
        verdict = evaluate_request(known.change, self._index, labels, Phase.VALIDATING)
        return Judged(known, tuple(self._said(verdict)), verdict.unknown)

    def place(self, known: Known, labels: Labels | None, placing: SnapshotProvider) -> Judged:
        """What is said of the nodes that there are for an object's pods."""
        verdict = check_schedulability(known.change, self._index, labels, placing)
        return Judged(known, tuple(self._said(verdict)), verdict.unknown)

    def _said(self, verdict: Verdict) -> Iterator[Said]:
        for problems, level in (
            (verdict.problems, Level.ERROR),
            (verdict.warnings, Level.WARNING),
            (verdict.audits, Level.NOTE),
        ):
            for problem in problems:
                yield Said(problem, f"rule {problem.rule}", level, self._whys.get(problem.rule, ""))


def _only_filling(policies: PolicySet) -> PolicySet:
    """The rules that fill in, denying nothing: what they fill in is not missing, whatever else is wrong."""
    rules = (rule for rule in policies.rules if rule.checks.requests_equal_limits is Equality.FILL)
    return replace(policies, rules=tuple(replace(rule, enforcement=Enforcement.AUDIT) for rule in rules))
