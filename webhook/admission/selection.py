"""Which rules speak about what: an index made once per policy set, so that a thousand rules cost no more than ten.

Rules are sorted out in three steps, each remembered within bounds: by kind and namespace (`RuleIndex.select`), by who
asks and how the object is labelled (`Selection.narrowed`, only where some rule asks that), by resource name
(`Selection.plan`).
"""

from collections.abc import Mapping
from functools import lru_cache

from webhook.accounting.fingerprint import FingerprintCache
from webhook.admission.change import User
from webhook.admission.plan import Plan
from webhook.policy.model import Equality, PolicySet, ResourceRule
from webhook.policy.resolve import matches_labels, matches_namespace, matches_resource, matches_subjects

_NAMESPACES_REMEMBERED = 4096
_PLANS_REMEMBERED = 256  # with what each plan remembers, some tens of megabytes at the very most
_LONGEST_REMEMBERED = 320  # longer than any well-formed name: hostile ones are judged, not kept

Labels = Mapping[str, str]


class Selection:
    """The rules for one kind in one namespace.

    `unknown` are rules that select by the namespace's labels where these are not known: they are not judged. `places`
    are those of the rules that are about nodes for pods. `faultless` are pods in which nothing at all was found.
    """

    def __init__(self, rules: tuple[ResourceRule, ...], unknown: tuple[ResourceRule, ...]) -> None:
        self.rules = rules
        self.unknown = unknown
        self.fills = any(rule.checks.requests_equal_limits is Equality.FILL for rule in rules)
        self.places = tuple(rule for rule in rules if rule.checks.advertised or rule.checks.schedulable)
        self.sums_pods = any(rule.checks.per_pod for rule in rules)
        self._asking = tuple(rule for rule in rules if _asks_who_or_what(rule))
        self._plans: dict[str, Plan] = {}
        self.faultless: FingerprintCache[bool] = FingerprintCache()
        self._without = lru_cache(maxsize=64)(self._leave_out)

    def narrowed(self, user: User, labels: Labels) -> "Selection":
        """The rules that remain for this user and an object with these labels."""
        if not self._asking:
            return self
        spared = frozenset(rule.name for rule in self._asking if not _concerns(rule, user, labels))
        return self._without(spared) if spared else self

    def _leave_out(self, spared: frozenset[str]) -> "Selection":
        return Selection(tuple(rule for rule in self.rules if rule.name not in spared), self.unknown)

    def plan(self, name: str) -> Plan:
        """What these rules check of the resource of this name."""
        found = self._plans.get(name)
        if found is None:
            found = Plan(name, tuple(rule for rule in self.rules if matches_resource(rule.resources, name)))
            if len(self._plans) >= _PLANS_REMEMBERED:
                self._plans.clear()
            if len(name) <= _LONGEST_REMEMBERED:
                self._plans[name] = found
        return found


class RuleIndex:
    """All rules of a policy set, ready to be asked. `places` when some of them is about nodes for pods."""

    def __init__(self, policies: PolicySet) -> None:
        self._rules = policies.rules
        self._shared: dict[tuple[tuple[str, ...], tuple[str, ...]], Selection] = {}
        self.places = any(rule.checks.advertised or rule.checks.schedulable for rule in policies.rules)
        self.needs_labels = any(rule.match.namespaces and rule.match.namespaces.selector for rule in policies.rules)
        self._select = lru_cache(maxsize=_NAMESPACES_REMEMBERED)(self._sort_out)

    def select(self, kind: str, namespace: str, labels: Labels | None) -> Selection:
        """The rules for objects of this kind in this namespace, whose labels are None where nobody knows them."""
        asked = frozenset(labels.items()) if labels is not None and self.needs_labels else None
        return self._select(kind, namespace, asked)

    def _sort_out(self, kind: str, namespace: str, labels: frozenset[tuple[str, str]] | None) -> Selection:
        known = dict(labels) if labels is not None else None
        rules: list[ResourceRule] = []
        unknown: list[ResourceRule] = []
        for rule in self._rules:
            concerned = _in_scope(rule, kind, namespace, known)
            if concerned is None:
                unknown.append(rule)
            elif concerned:
                rules.append(rule)
        return self._intern(tuple(rules), tuple(unknown))

    def _intern(self, rules: tuple[ResourceRule, ...], unknown: tuple[ResourceRule, ...]) -> Selection:
        """One selection for all namespaces that have the same rules, so that they share their plans."""
        key = (tuple(rule.name for rule in rules), tuple(rule.name for rule in unknown))
        if len(self._shared) >= _NAMESPACES_REMEMBERED:
            self._shared.clear()
        return self._shared.setdefault(key, Selection(rules, unknown))


def _in_scope(rule: ResourceRule, kind: str, namespace: str, labels: Labels | None) -> bool | None:
    match = rule.match
    if match.kinds is not None and kind not in match.kinds:
        return False
    if match.namespaces is None:
        return True
    # An object outside namespaces is in none, so a rule for some namespaces is not for it.
    return matches_namespace(match.namespaces, namespace, labels) if namespace else False


def _asks_who_or_what(rule: ResourceRule) -> bool:
    subjects = rule.match.except_for
    return rule.match.objects is not None or bool(subjects.users or subjects.groups or subjects.service_accounts)


def _concerns(rule: ResourceRule, user: User, labels: Labels) -> bool:
    if matches_subjects(rule.match.except_for, user.name, user.groups):
        return False
    selector = rule.match.objects
    return selector is None or matches_labels(selector, labels)
