"""Resource names that look like slips: near a well-known one, or spelt otherwise elsewhere in the set."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from webhook.accounting.names import LIMITS_PREFIX
from webhook.policy.codes import MISSPELT_RESOURCE
from webhook.policy.finding import LintFinding
from webhook.policy.formats import PODS_RESOURCE
from webhook.policy.globs import is_literal
from webhook.policy.model import NamespaceCap, PolicySet, ResourceRule
from webhook.policy.nodes import joined
from webhook.policy.remark import create_finding, create_warning
from webhook.policy.resolve import FAMILY_PATTERNS
from webhook.policy.suggest import WELL_KNOWN_RESOURCES, suggest_resource


@dataclass(frozen=True, slots=True)
class _ResourceUse:
    """One place where a policy names a resource."""

    name: str
    policy: ResourceRule | NamespaceCap
    field: str


def lint_names(policies: PolicySet) -> Iterator[LintFinding]:
    """A warning for each name that was probably meant to be another one."""
    uses = list(_list_uses(policies))
    respellings = _find_respellings(uses)
    for use in uses:
        suggestion = _suggest_well_known(use.name) or respellings.get(use.name)
        if suggestion is not None:
            text = f'did you mean "{suggestion}" instead of "{use.name}"?'
            yield create_finding(use.policy, create_warning(use.field, MISSPELT_RESOURCE, text))


def _list_uses(policies: PolicySet) -> Iterator[_ResourceUse]:
    for rule in policies.rules:
        for index, name in enumerate(rule.resources):
            if is_literal(name) and name not in FAMILY_PATTERNS and not name.startswith("!"):
                yield _ResourceUse(name, rule, f"spec.resources[{index}]")
    for cap in policies.caps:
        for field, amounts in (("spec.hard", cap.hard), ("spec.soft", cap.soft)):
            for name in amounts:
                resource = name.removeprefix(LIMITS_PREFIX)
                if resource != PODS_RESOURCE:
                    yield _ResourceUse(resource, cap, joined(field, name))


def _suggest_well_known(name: str) -> str | None:
    """The well-known name that this one is a slip for. Names that differ by digits only are members of one family."""
    suggestion = suggest_resource(name, WELL_KNOWN_RESOURCES)
    return None if suggestion is None or _remove_digits(suggestion) == _remove_digits(name) else suggestion


def _remove_digits(name: str) -> str:
    return re.sub(r"[0-9]+", "", name)


def _find_respellings(uses: list[_ResourceUse]) -> dict[str, str]:
    """For each name that is used less often than another one of the same letters, that other one."""
    uses_by_name = Counter(use.name for use in uses)
    by_letters: dict[str, set[str]] = {}
    for name in uses_by_name:
        by_letters.setdefault(_normalize_spelling(name), set()).add(name)
    return {
        name: most_used
        for names in by_letters.values()
        for most_used in [max(names, key=lambda spelling: (uses_by_name[spelling], spelling))]
        for name in names
        if uses_by_name[name] < uses_by_name[most_used]
    }


def _normalize_spelling(name: str) -> str:
    """A name without what people get wrong: case, separators, a plural."""
    domain, _, rest = name.lower().rpartition("/")
    return f"{domain}/{re.sub('[-_.]', '', rest).removesuffix('s')}"
