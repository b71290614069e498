"""The rule index: created once per policy set, so that a thousand rules cost no more than ten.

A look-up has three steps, each with a bounded cache: by kind and namespace (`RuleIndex.select`), by user and labels of
the object (`RuleSelection.for_user`, only if a rule depends on them), by resource name (`RuleSelection.get_checks`).
"""

from collections.abc import Mapping
from functools import lru_cache

from tallygate.accounting.names import COUNTABLE_FAMILIES, classify_name
from tallygate.accounting.node_shape import NodeShape
from tallygate.accounting.result_cache import FingerprintCache
from tallygate.admission.compiled_checks import CompiledChecks, RuleGroup
from tallygate.admission.implied_requests import NO_IMPLIED, ImpliedIndex, ImpliedRequests
from tallygate.admission.kinds import DecodedRequest, list_review_targets
from tallygate.admission.request import AdmissionRequest, UserInfo
from tallygate.policy.matching import (
    PatternIndex,
    includes_resource,
    matches_labels,
    matches_namespace,
    matches_subjects,
)
from tallygate.policy.model import Equality, PolicySet, ResourceRule
from tallygate.policy.node_resources import NodeResource

_MAX_CACHED_NAMESPACES = 4096
_MAX_CACHED_CHECKS = 256  # with the cache of each, some tens of megabytes at most
_MAX_CACHED_NAME_LENGTH = 320  # longer than any well-formed name: hostile names are evaluated, not cached

Labels = Mapping[str, str]


class RuleSelection:
    """The rules for one kind in one namespace.

    `unknown` are the rules that select by labels of the namespace, where these are unknown: they are not evaluated.
    `node_rules` are the rules that compare pods with nodes, `claim_rules` those that check claims for devices, and
    `deadline_rules` those that limit the time of pods.
    `passing_pods` has a key for each pod without any violation: its fingerprint, and what else decides.
    `node_shapes` are the nodes that may come, `node_resources` the amounts that nodes get.
    """

    def __init__(
        self,
        rules: tuple[ResourceRule, ...],
        unknown: tuple[ResourceRule, ...],
        node_shapes: tuple[NodeShape, ...] = (),
        node_resources: tuple[NodeResource, ...] = (),
    ) -> None:
        self.rules = rules
        self.unknown = unknown
        self.node_shapes = node_shapes
        self.node_resources = node_resources
        self.has_fill = any(rule.checks.requests_equal_limits is Equality.FILL for rule in rules)
        self.node_rules = tuple(rule for rule in rules if rule.checks.advertised or rule.checks.schedulable)
        self.claim_rules = tuple(rule for rule in rules if rule.checks.per_claim or rule.checks.devices)
        self.has_pod_bounds = any(rule.checks.per_pod for rule in rules)
        self.deadline_rules = tuple(rule for rule in rules if rule.checks.active_deadline_seconds)
        self._conditional_rules = tuple(rule for rule in rules if _is_conditional(rule))
        self._checks_by_name: dict[str, CompiledChecks] = {}
        self._patterns = PatternIndex(pattern for rule in rules for pattern in rule.resources)
        self._groups: dict[tuple[frozenset[str], bool], RuleGroup] = {}
        self.passing_pods: FingerprintCache[bool] = FingerprintCache()
        self._exclude_cached = lru_cache(maxsize=64)(self._exclude)

    def for_user(self, user: UserInfo, labels: Labels) -> "RuleSelection":
        if not self._conditional_rules:
            return self
        excluded = frozenset(rule.name for rule in self._conditional_rules if not _is_selected(rule, user, labels))
        return self._exclude_cached(excluded) if excluded else self

    def _exclude(self, excluded: frozenset[str]) -> "RuleSelection":
        remaining = tuple(rule for rule in self.rules if rule.name not in excluded)
        return RuleSelection(remaining, self.unknown, self.node_shapes, self.node_resources)

    def _find_group(self, name: str) -> RuleGroup:
        """Return the group of the rules for a name: it depends on the patterns that match the name, and its family."""
        family = classify_name(name)
        key = (self._patterns.find_matching(name, family), family in COUNTABLE_FAMILIES)
        group = self._groups.get(key)
        if group is None:
            patterns, is_countable_name = key
            rules = tuple(rule for rule in self.rules if includes_resource(rule.resources, patterns))
            group = RuleGroup(rules, is_countable_name=is_countable_name)
            if len(self._groups) >= _MAX_CACHED_CHECKS:
                self._groups.clear()
            self._groups[key] = group
        return group

    def get_checks(self, name: str) -> CompiledChecks:
        checks = self._checks_by_name.get(name)
        if checks is None:
            checks = CompiledChecks(name, self._find_group(name))
            if len(self._checks_by_name) >= _MAX_CACHED_CHECKS:
                self._checks_by_name.clear()
            if len(name) <= _MAX_CACHED_NAME_LENGTH:
                self._checks_by_name[name] = checks
        return checks


class RuleIndex:
    """An index of all rules of a policy set, and the review `targets` of the set.

    `has_node_rules` is true if a rule compares pods with nodes.
    """

    def __init__(self, policies: PolicySet) -> None:
        self.targets = list_review_targets(policies)
        self._rules = policies.rules
        self._node_shapes = policies.node_shapes
        self._node_resources = policies.node_resources
        self._selections: dict[tuple[tuple[str, ...], tuple[str, ...]], RuleSelection] = {}
        self.has_node_rules = any(rule.checks.advertised or rule.checks.schedulable for rule in policies.rules)
        self._needs_rule_labels = any(
            rule.match.namespaces and rule.match.namespaces.selector for rule in policies.rules
        )
        self._implied = ImpliedIndex(policies) if policies.implied_requests else None
        self.needs_labels = self._needs_rule_labels or (self._implied is not None and self._implied.needs_labels)
        self._select = lru_cache(maxsize=_MAX_CACHED_NAMESPACES)(self._create_selection)

    def decode(self, request: AdmissionRequest, labels: Labels | None) -> DecodedRequest:
        """Return a request with its review target and the implied requests in its namespace.

        `labels` are the labels of the namespace, None if unknown. The object is decoded on first use.
        """
        return DecodedRequest(request, self.targets, self.select_implied(request.namespace, labels))

    def select_implied(self, namespace: str, labels: Labels | None) -> ImpliedRequests:
        """Return the implied requests in a namespace with these labels, None if unknown."""
        return NO_IMPLIED if self._implied is None else self._implied.select(namespace, labels)

    def select(self, kind: str, namespace: str, labels: Labels | None) -> RuleSelection:
        """Return the rules for a kind in a namespace; `labels` are the labels of the namespace, None if unknown."""
        label_items = frozenset(labels.items()) if labels is not None and self._needs_rule_labels else None
        return self._select(kind, namespace, label_items)

    def select_node_rules(self, kind: str, namespace: str, labels: Labels | None) -> RuleSelection | None:
        """Return the rules for a kind in a namespace, None if none of them compares pods with nodes."""
        selection = self.select(kind, namespace, labels) if self.has_node_rules else None
        return selection if selection is not None and selection.node_rules else None

    def _create_selection(self, kind: str, namespace: str, labels: frozenset[tuple[str, str]] | None) -> RuleSelection:
        labels_by_key = dict(labels) if labels is not None else None
        rules: list[ResourceRule] = []
        unknown: list[ResourceRule] = []
        for rule in self._rules:
            is_in_scope = _is_in_scope(rule, kind, namespace, labels_by_key)
            if is_in_scope is None:
                unknown.append(rule)
            elif is_in_scope:
                rules.append(rule)
        return self._intern(tuple(rules), tuple(unknown))

    def _intern(self, rules: tuple[ResourceRule, ...], unknown: tuple[ResourceRule, ...]) -> RuleSelection:
        """Return one selection for all namespaces with the same rules, so that they share their compiled checks."""
        key = (tuple(rule.name for rule in rules), tuple(rule.name for rule in unknown))
        if len(self._selections) >= _MAX_CACHED_NAMESPACES:
            self._selections.clear()
        return self._selections.setdefault(key, RuleSelection(rules, unknown, self._node_shapes, self._node_resources))


def _is_in_scope(rule: ResourceRule, kind: str, namespace: str, labels: Labels | None) -> bool | None:
    match = rule.match
    if match.kinds is not None and kind not in match.kinds:
        return False
    if match.namespaces is None:
        return True
    # A cluster-scoped object is in no namespace, so a rule for some namespaces does not apply to it.
    return matches_namespace(match.namespaces, namespace, labels) if namespace else False


def _is_conditional(rule: ResourceRule) -> bool:
    subjects = rule.match.exempt
    return rule.match.object_selector is not None or bool(
        subjects.users or subjects.groups or subjects.service_accounts
    )


def _is_selected(rule: ResourceRule, user: UserInfo, labels: Labels) -> bool:
    if matches_subjects(rule.match.exempt, user.name, user.groups):
        return False
    selector = rule.match.object_selector
    return selector is None or matches_labels(selector, labels)
