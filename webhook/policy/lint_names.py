"""Resource names that look like slips: near a well-known one, or spelt otherwise elsewhere in the set."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from webhook.accounting.names import LIMITS_PREFIX
from webhook.policy.codes import MISSPELT_RESOURCE
from webhook.policy.finding import Finding
from webhook.policy.formats import PODS
from webhook.policy.globs import is_literal
from webhook.policy.model import NamespaceCap, PolicySet, ResourceRule
from webhook.policy.nodes import joined
from webhook.policy.remark import finding, warning
from webhook.policy.resolve import FAMILIES
from webhook.policy.suggest import WELL_KNOWN, resource_meant


@dataclass(frozen=True, slots=True)
class _Use:
    """One place where a policy names a resource."""

    name: str
    policy: ResourceRule | NamespaceCap
    field: str


def lint_names(policies: PolicySet) -> Iterator[Finding]:
    """A warning for each name that was probably meant to be another one."""
    uses = list(_uses(policies))
    spelt = _spellings(uses)
    for use in uses:
        meant = _well_known(use.name) or spelt.get(use.name)
        if meant is not None:
            text = f'did you mean "{meant}" instead of "{use.name}"?'
            yield finding(use.policy, warning(use.field, MISSPELT_RESOURCE, text))


def _uses(policies: PolicySet) -> Iterator[_Use]:
    for rule in policies.rules:
        for at, name in enumerate(rule.resources):
            if is_literal(name) and name not in FAMILIES and not name.startswith("!"):
                yield _Use(name, rule, f"spec.resources[{at}]")
    for cap in policies.caps:
        for where, amounts in (("spec.hard", cap.hard), ("spec.soft", cap.soft)):
            for name in amounts:
                counted = name.removeprefix(LIMITS_PREFIX)
                if counted != PODS:
                    yield _Use(counted, cap, joined(where, name))


def _well_known(name: str) -> str | None:
    """The well-known name that this one is a slip for. Names that differ by digits only are members of one family."""
    meant = resource_meant(name, WELL_KNOWN)
    return None if meant is None or _without_digits(meant) == _without_digits(name) else meant


def _without_digits(name: str) -> str:
    return re.sub(r"[0-9]+", "", name)


def _spellings(uses: list[_Use]) -> dict[str, str]:
    """For each name that is used less often than another one of the same letters, that other one."""
    often = Counter(use.name for use in uses)
    by_letters: dict[str, set[str]] = {}
    for name in often:
        by_letters.setdefault(_letters(name), set()).add(name)
    return {
        name: best
        for names in by_letters.values()
        for best in [max(names, key=lambda each: (often[each], each))]
        for name in names
        if often[name] < often[best]
    }


def _letters(name: str) -> str:
    """A name without what people get wrong: case, separators, a plural."""
    domain, _, rest = name.lower().rpartition("/")
    return f"{domain}/{re.sub('[-_.]', '', rest).removesuffix('s')}"
