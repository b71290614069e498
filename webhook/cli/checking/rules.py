"""What the rules say of an object, and what they fill in before the API server looks at it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from webhook.admission.evaluate import evaluate_request
from webhook.admission.request import Phase
from webhook.admission.rule_index import Labels, RuleIndex
from webhook.admission.verdict import Verdict
from webhook.cli.checking.known import TypedObject, replace_body
from webhook.cli.checking.merging import ReportedProblem
from webhook.cli.checking.patching import apply_patch
from webhook.cli.report.finding import FindingSeverity
from webhook.gate.scheduling_snapshot import SnapshotProvider, check_schedulability
from webhook.policy.model import Enforcement, Equality, PolicySet


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The object as it would be stored, what was said of it, and what could not be judged."""

    typed: TypedObject
    problems: tuple[ReportedProblem, ...]
    not_evaluated: tuple[str, ...]


class RuleChecker:
    """A policy set's rules, ready to be asked."""

    def __init__(self, policies: PolicySet) -> None:
        self._index = RuleIndex(policies)
        self._fill_index = RuleIndex(_select_fill_rules(policies))
        self._why_by_rule: Mapping[str, str] = {rule.name: rule.reason for rule in policies.rules}

    def evaluate(self, typed: TypedObject, labels: Labels | None) -> RuleResult:
        """Put an object's creation before both webhooks; `labels` are its namespace's, None when unknown."""
        patch = evaluate_request(typed.request, self._fill_index, labels, Phase.MUTATING).patch
        if patch:
            typed = replace_body(typed, apply_patch(typed.body, patch))
        verdict = evaluate_request(typed.request, self._index, labels, Phase.VALIDATING)
        return RuleResult(typed, tuple(self._convert_problems(verdict)), verdict.unknown)

    def check_schedulability(
        self, typed: TypedObject, labels: Labels | None, snapshot_provider: SnapshotProvider
    ) -> RuleResult:
        """What is said of the nodes that there are for an object's pods."""
        verdict = check_schedulability(typed.request, self._index, labels, snapshot_provider)
        return RuleResult(typed, tuple(self._convert_problems(verdict)), verdict.unknown)

    def _convert_problems(self, verdict: Verdict) -> Iterator[ReportedProblem]:
        for problems, severity in (
            (verdict.problems, FindingSeverity.ERROR),
            (verdict.warnings, FindingSeverity.WARNING),
            (verdict.audits, FindingSeverity.NOTE),
        ):
            for problem in problems:
                yield ReportedProblem(
                    problem, f"rule {problem.rule}", severity, self._why_by_rule.get(problem.rule, "")
                )


def _select_fill_rules(policies: PolicySet) -> PolicySet:
    """The rules that fill in, denying nothing: what they fill in is not missing, whatever else is wrong."""
    rules = (rule for rule in policies.rules if rule.checks.requests_equal_limits is Equality.FILL)
    return replace(policies, rules=tuple(replace(rule, enforcement=Enforcement.AUDIT) for rule in rules))
