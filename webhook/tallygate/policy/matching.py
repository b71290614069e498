"""Matching: tests of a pattern, selector or subject against a resource, namespace, object or user.

The module has only the primitives; `tallygate.admission` combines them. All are exact. If an answer needs labels that
are unknown, it is `None`, never a guess.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from tallygate.accounting.names import DEVICE_CLASS_PREFIX, DEVICES_SUFFIX, Family, classify_name
from tallygate.objects.core import Pod
from tallygate.objects.devices import ResourceClaim
from tallygate.policy.cap_limits import CapacitySelection
from tallygate.policy.globs import compile_glob, is_literal, matches
from tallygate.policy.model import PodFilter
from tallygate.policy.selectors import LabelRequirement, NamespaceSelector, Operator, PolicyLabelSelector, Subjects

FAMILY_PATTERNS: Mapping[str, Family] = {"extended": Family.EXTENDED, "opaque": Family.OPAQUE}
"""Patterns that are names of a family, not globs."""

_MATCHING_FAMILY = {family: frozenset((pattern,)) for pattern, family in FAMILY_PATTERNS.items()}
_NO_PATTERNS = frozenset[str]()

_MAX_CACHED_LENGTH = 317
"""A well-formed resource name has at most 253 + 1 + 63 bytes; longer ones are hostile and are not cached."""

_NO_CLASS = "_"  # no class has such a name, so only patterns match it that match any
_SERVICE_ACCOUNT = "system:serviceaccount:"


def matches_resource(patterns: tuple[str, ...], name: str) -> bool:
    """Return whether patterns match a resource name: one includes it and none with `!` excludes it, in any order.

    A pattern is a glob over the whole name, or `extended` or `opaque` for those families (design §2).
    """
    return _matches_cached(patterns, name) if len(name) <= _MAX_CACHED_LENGTH else _matches_uncached(patterns, name)


def _matches_uncached(patterns: tuple[str, ...], name: str) -> bool:
    included = False
    for pattern in patterns:
        if pattern.startswith("!"):
            if _matches_pattern(pattern[1:], name):
                return False
        elif not included:
            included = _matches_pattern(pattern, name)
    return included


_matches_cached = lru_cache(maxsize=16384)(_matches_uncached)


def _matches_pattern(pattern: str, name: str) -> bool:
    family = FAMILY_PATTERNS.get(pattern)
    return matches(pattern, name) if family is None else classify_name(name) is family


def includes_resource(patterns: tuple[str, ...], matching: Collection[str]) -> bool:
    """Return the result of `matches_resource` for a name that only the `matching` ones of all patterns match."""
    return any(pattern in matching for pattern in patterns) and not any(
        pattern[1:] in matching for pattern in patterns if pattern.startswith("!")
    )


class PatternIndex:
    """The patterns of resources of many rules: one name is compared with few of them.

    A name is compared with those without wildcards by one look-up, with those whose domain has no wildcards and with
    families by another each, and with the remaining ones one by one.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        literals: set[str] = set()
        by_domain: dict[str, list[str]] = {}
        others: list[str] = []
        for pattern in dict.fromkeys(glob_text.removeprefix("!") for glob_text in patterns):
            domain, slash, _ = pattern.partition("/")
            if pattern in FAMILY_PATTERNS:
                continue
            if is_literal(pattern):
                literals.add(pattern)
            elif slash and is_literal(domain):
                by_domain.setdefault(domain, []).append(pattern)
            else:
                others.append(pattern)
        self._literals, self._by_domain = literals, by_domain
        self._others = tuple((glob, compile_glob(glob).match) for glob in others)

    def find_matching(self, name: str, family: Family) -> frozenset[str]:
        """Return the patterns, without `!`, that match a name of this family."""
        matching = [glob for glob, match in self._others if match(name)]
        if self._by_domain and (globs := self._by_domain.get(name.partition("/")[0])):
            matching += [glob for glob in globs if matches(glob, name)]
        if name in self._literals:
            matching.append(name)
        by_family = _MATCHING_FAMILY.get(family, _NO_PATTERNS)
        return by_family.union(matching) if matching else by_family


def matches_device_class(patterns: tuple[str, ...], class_name: str) -> bool:
    """Return whether patterns of resources match the devices of a class.

    These have two names, `CLASS.deviceclass.resource.k8s.io/devices` and `deviceclass.resource.kubernetes.io/CLASS`:
    one must be included, none excluded. The family `extended` contains all of them.
    """
    names = (class_name + DEVICES_SUFFIX, DEVICE_CLASS_PREFIX + class_name)
    included = False
    for pattern in patterns:
        if pattern.startswith("!"):
            if _matches_devices(pattern[1:], names):
                return False
        elif not included:
            included = _matches_devices(pattern, names)
    return included


def names_every_class(patterns: tuple[str, ...]) -> bool:
    """Return whether patterns of resources match the devices of every class, as `extended` does."""
    return matches_device_class(patterns, _NO_CLASS)


def _matches_devices(pattern: str, names: tuple[str, str]) -> bool:
    family = FAMILY_PATTERNS.get(pattern)
    return _matches_any((pattern,), *names) if family is None else family is Family.EXTENDED


def matches_class_name(patterns: tuple[str, ...], class_name: str) -> bool:
    """Return whether globs match the name of a class: one includes it and none with `!` excludes it, in any order."""
    return any(matches(glob, class_name) for glob in patterns if not glob.startswith("!")) and not any(
        matches(glob[1:], class_name) for glob in patterns if glob.startswith("!")
    )


def matches_namespace(selector: NamespaceSelector | None, name: str, labels: Mapping[str, str] | None) -> bool | None:
    """Return whether a selector matches a namespace, or `None` if that depends on its labels and they are unknown.

    The name decides first, so labels matter only if the name matches and there is a label selector.
    """
    if selector is None:
        return True
    if selector.include and not _matches_any(selector.include, name):
        return False
    if _matches_any(selector.exclude, name):
        return False
    if selector.selector is None or selector.selector == PolicyLabelSelector():
        return True
    return None if labels is None else matches_labels(selector.selector, labels)


def matches_labels(selector: PolicyLabelSelector | None, labels: Mapping[str, str] | None) -> bool:
    """Return whether labels satisfy a selector; missing labels count as empty, a missing selector matches always.

    The semantics are those of Kubernetes (apimachinery pkg/labels/selector.go, Requirement.Matches, v1.36): `NotIn` and
    `DoesNotExist` are satisfied if the key is missing.
    """
    if selector is None:
        return True
    labels = labels or {}
    has_equal_labels = all(labels.get(key) == value for key, value in selector.match_labels.items())
    return has_equal_labels and all(_is_satisfied(requirement, labels) for requirement in selector.match_expressions)


def selects_node(selection: CapacitySelection, labels: Mapping[str, str], taints: Collection[str]) -> bool:
    """Return whether a selection of capacity has nodes with these labels, and taints of these keys."""
    return not any(key in taints for key in selection.exclude_taints) and matches_labels(
        selection.node_selector, labels
    )


def _is_satisfied(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case Operator.EXISTS:
            return value is not None
        case Operator.DOES_NOT_EXIST:
            return value is None
        case Operator.IN:
            return value in requirement.values
        case Operator.NOT_IN:
            return value not in requirement.values


def counts_pod(pod_filter: PodFilter, pod: Pod) -> bool:
    """Return whether a cap with this filter counts a pod."""
    spec = pod.spec
    if pod_filter.priority_classes and (spec is None or spec.priority_class_name not in pod_filter.priority_classes):
        return False
    node_selector = (spec.node_selector if spec else None) or {}
    if any(node_selector.get(key) != value for key, value in pod_filter.node_selector.items()):
        return False
    return matches_labels(pod_filter.objects, pod.metadata.labels if pod.metadata else None)


def counts_claim(pod_filter: PodFilter, claim: ResourceClaim) -> bool:
    """Return whether a cap with this filter counts a claim, which has neither priority class nor node selector."""
    if pod_filter.priority_classes or pod_filter.node_selector:
        return False
    return matches_labels(pod_filter.objects, claim.metadata.labels if claim.metadata else None)


def matches_subjects(subjects: Subjects, user_name: str, groups: Iterable[str]) -> bool:
    """Return whether a user matches: by name, by a group, or as a service account `namespace/name`. All are globs.

    A service account's user name is `system:serviceaccount:NAMESPACE:NAME` (k8s.io/apiserver
    pkg/authentication/serviceaccount, MakeUsername, v1.36).
    """
    if not (subjects.users or subjects.groups or subjects.service_accounts):
        return False
    return (
        _matches_any(subjects.users, user_name)
        or any(_matches_any(subjects.groups, group) for group in (groups if subjects.groups else ()))
        or (bool(subjects.service_accounts) and _is_matching_account(subjects.service_accounts, user_name))
    )


def _is_matching_account(globs: tuple[str, ...], user_name: str) -> bool:
    namespace, colon, name = user_name.removeprefix(_SERVICE_ACCOUNT).partition(":")
    is_account = user_name.startswith(_SERVICE_ACCOUNT) and bool(colon) and ":" not in name
    return is_account and any(_is_matching_account_glob(glob, namespace, name) for glob in globs)


def _is_matching_account_glob(glob: str, namespace: str, name: str) -> bool:
    """Return whether each half matches its own glob, so that `ci/*` never matches an account of another namespace."""
    namespace_glob, _, name_glob = glob.partition("/")
    return matches(namespace_glob, namespace) and matches(name_glob, name)


def _matches_any(globs: tuple[str, ...], *texts: str) -> bool:
    return any(compile_glob(glob).match(text) is not None for glob in globs for text in texts)
