"""A plan: everything that the rules in force check of one resource name.

Made once per name and kept, it remembers what it found of each written quantity: the next `"2"` costs a look-up.
"""

from dataclasses import dataclass

from webhook.accounting.name_rules import NameContext, find_advertised_name_problems, find_name_problems
from webhook.accounting.names import is_countable
from webhook.accounting.problem import Reason
from webhook.admission import quantities
from webhook.admission.codes import MALFORMED_NAME
from webhook.admission.quantities import Fault
from webhook.policy.model import Bounds, Equality, ResourceRule

_QUANTITIES_REMEMBERED = 256
_REMEMBERED_LENGTH = 64


@dataclass(frozen=True, slots=True)
class RuleFault:
    """A fault, and the rule that minds it."""

    rule: ResourceRule
    fault: Fault


@dataclass(frozen=True, slots=True)
class Reading:
    """What one written quantity comes to: its faults, and whether a sum with its like could pass int64."""

    faults: tuple[RuleFault, ...]
    large: bool


class Plan:
    """The rules about one resource name, by what they check. `idle` when there are none."""

    def __init__(self, name: str, rules: tuple[ResourceRule, ...]) -> None:
        self.name = name
        self.rules = rules
        self.idle = not rules
        countable = is_countable(name)
        self._naming = tuple(rule for rule in rules if rule.checks.well_formed_name)
        self.whole = tuple(rule for rule in rules if _applies(written=rule.checks.whole_quantity, countable=countable))
        self.equality = tuple(
            (rule, equality)
            for rule in rules
            if (equality := _equality(rule, countable=countable)) is not Equality.IGNORE
        )
        self.fill = any(equality is Equality.FILL for _, equality in self.equality)
        self.per_pod = tuple((rule, rule.checks.per_pod) for rule in rules if rule.checks.per_pod)
        self._bounded = tuple((rule, rule.checks.per_container) for rule in rules if rule.checks.per_container)
        self._found: dict[tuple[bytes, bool, str], Reading] = {}
        self._names: dict[tuple[str, NameContext], tuple[RuleFault, ...]] = {}

    def name_faults(self, written: str, place: NameContext) -> tuple[RuleFault, ...]:
        """What is wrong with the name as written at this place (a quota writes `requests.` in front)."""
        found = self._names.get((written, place))
        if found is None:
            wrong = (
                find_advertised_name_problems(written)
                if place is NameContext.NODE
                else find_name_problems(written, place)
            )
            # The first is the cause; Kubernetes goes on to say what else does not hold of such a name.
            found = self._names[written, place] = tuple(
                RuleFault(rule, Fault(MALFORMED_NAME.number, Reason.INVALID, written, fault.message))
                for fault in wrong[:1]
                for rule in self._naming
            )
        return found

    def read(self, token: bytes, *, bounded: bool, verb: str = quantities.ASK) -> Reading:
        """What is wrong with this quantity (raw JSON); `bounded` when it is one container's own ask."""
        found = self._found.get((token, bounded, verb))
        if found is None:
            faults = tuple(self._judge(token, self._bounded if bounded else (), verb))
            found = Reading(faults, bool(self.whole) and quantities.is_large(token))
            if len(self._found) >= _QUANTITIES_REMEMBERED:
                self._found.clear()
            if len(token) <= _REMEMBERED_LENGTH:
                self._found[token, bounded, verb] = found
        return found

    def _judge(self, token: bytes, bounded: tuple[tuple[ResourceRule, Bounds], ...], verb: str) -> list[RuleFault]:
        found = [RuleFault(rule, fault) for fault in quantities.whole(self.name, token, verb) for rule in self.whole]
        for rule, bounds in bounded:
            found += [RuleFault(rule, fault) for fault in quantities.within(self.name, token, bounds)]
        return found


def _applies(*, written: bool | None, countable: bool) -> bool:
    return countable if written is None else written


def _equality(rule: ResourceRule, *, countable: bool) -> Equality:
    written = rule.checks.requests_equal_limits
    if written is None:
        return Equality.REQUIRE if countable else Equality.IGNORE
    return written
