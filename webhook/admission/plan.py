"""A plan: everything that the rules in force check of one resource name.

Made once per name and kept, it remembers what it found of each written quantity: the next `"2"` costs a look-up.
"""

from dataclasses import dataclass

from webhook.accounting.name_rules import NameContext, find_advertised_name_problems, find_name_problems
from webhook.accounting.names import is_countable
from webhook.accounting.problem import Reason
from webhook.admission import quantities
from webhook.admission.codes import MALFORMED_NAME
from webhook.admission.quantities import CheckFailure
from webhook.policy.model import AmountBounds, Equality, ResourceRule

_MAX_CACHED_QUANTITIES = 256
_MAX_CACHED_LENGTH = 64


@dataclass(frozen=True, slots=True)
class RuleCheckFailure:
    """A fault, and the rule that minds it."""

    rule: ResourceRule
    failure: CheckFailure


@dataclass(frozen=True, slots=True)
class QuantityCheckResult:
    """What one written quantity comes to: its faults, and whether a sum with its like could pass int64."""

    failures: tuple[RuleCheckFailure, ...]
    is_large: bool


class CompiledChecks:
    """The rules about one resource name, by what they check. `idle` when there are none."""

    def __init__(self, name: str, rules: tuple[ResourceRule, ...]) -> None:
        self.name = name
        self.rules = rules
        self.is_empty = not rules
        is_countable_name = is_countable(name)
        self._name_rules = tuple(rule for rule in rules if rule.checks.well_formed_name)
        self.whole_rules = tuple(
            rule
            for rule in rules
            if _is_enabled(setting=rule.checks.whole_quantity, is_countable_name=is_countable_name)
        )
        self.equality_rules = tuple(
            (rule, equality)
            for rule in rules
            if (equality := _get_equality(rule, is_countable_name=is_countable_name)) is not Equality.IGNORE
        )
        self.has_fill = any(equality is Equality.FILL for _, equality in self.equality_rules)
        self.pod_bounds = tuple((rule, rule.checks.per_pod) for rule in rules if rule.checks.per_pod)
        self._container_bounds = tuple((rule, rule.checks.per_container) for rule in rules if rule.checks.per_container)
        self._quantity_results: dict[tuple[bytes, bool, str], QuantityCheckResult] = {}
        self._name_failures: dict[tuple[str, NameContext], tuple[RuleCheckFailure, ...]] = {}

    def check_name(self, written_name: str, context: NameContext) -> tuple[RuleCheckFailure, ...]:
        """What is wrong with the name as written at this place (a quota writes `requests.` in front)."""
        failures = self._name_failures.get((written_name, context))
        if failures is None:
            problems = (
                find_advertised_name_problems(written_name)
                if context is NameContext.NODE
                else find_name_problems(written_name, context)
            )
            # The first is the cause; Kubernetes goes on to say what else does not hold of such a name.
            failures = self._name_failures[written_name, context] = tuple(
                RuleCheckFailure(
                    rule, CheckFailure(MALFORMED_NAME.number, Reason.INVALID, written_name, problem.message)
                )
                for problem in problems[:1]
                for rule in self._name_rules
            )
        return failures

    def check_quantity(
        self, token: bytes, *, is_container: bool, verb: str = quantities.REQUEST_VERB
    ) -> QuantityCheckResult:
        """What is wrong with this quantity (raw JSON); `bounded` when it is one container's own ask."""
        result = self._quantity_results.get((token, is_container, verb))
        if result is None:
            failures = tuple(self._find_failures(token, self._container_bounds if is_container else (), verb))
            result = QuantityCheckResult(failures, bool(self.whole_rules) and quantities.is_large(token))
            if len(self._quantity_results) >= _MAX_CACHED_QUANTITIES:
                self._quantity_results.clear()
            if len(token) <= _MAX_CACHED_LENGTH:
                self._quantity_results[token, is_container, verb] = result
        return result

    def _find_failures(
        self, token: bytes, container_bounds: tuple[tuple[ResourceRule, AmountBounds], ...], verb: str
    ) -> list[RuleCheckFailure]:
        failures = [
            RuleCheckFailure(rule, failure)
            for failure in quantities.check_whole(self.name, token, verb)
            for rule in self.whole_rules
        ]
        for rule, bounds in container_bounds:
            failures += [RuleCheckFailure(rule, fault) for fault in quantities.check_bounds(self.name, token, bounds)]
        return failures


def _is_enabled(*, setting: bool | None, is_countable_name: bool) -> bool:
    return is_countable_name if setting is None else setting


def _get_equality(rule: ResourceRule, *, is_countable_name: bool) -> Equality:
    setting = rule.checks.requests_equal_limits
    if setting is None:
        return Equality.REQUIRE if is_countable_name else Equality.IGNORE
    return setting
