"""The objects that policies have something to say about, as a condition in CEL, by which the API server asks the gate.

A condition is false only for objects of which no policy could deny, warn of, charge or change anything, whatever else
the cluster has; for others it may be true. Each policy contributes its namespaces by name, its kinds, and the names of
resources that an object has to have. Labels of namespaces are unknown to the API server there, so a policy that selects
namespaces by labels contributes all those that it selects by name.

An API server rejects a request for which a condition fails under `failurePolicy: Fail` (k8s.io/apiserver
pkg/admission/plugin/webhook/matchconditions, v1.36). So no condition reads a field that may be absent, and long lists
and names make it true before their evaluation would reach the cost limit.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from tallygate.accounting.charge import PODS
from tallygate.accounting.gpu_annotations import CONTAINER_MEMORY_PREFIX, KEYS, VENDOR
from tallygate.accounting.names import DEVICE_CLASS_PREFIX, DEVICES_SUFFIX, LIMITS_PREFIX
from tallygate.admission.cel_texts import FALSE, KIND, TRUE, format_globs, format_namespaces, join_all, join_any, quote
from tallygate.admission.request import Phase
from tallygate.policy.matching import FAMILY_PATTERNS, matches_resource
from tallygate.policy.model import CLAIM_KINDS, Checks, Equality, ImpliedRequest, NamespaceCap, PolicySet, ResourceRule

EVERYTHING = TRUE
"""The condition of a webhook that is asked about every object of its kinds."""

NOTHING = FALSE
"""The condition of a webhook that need not exist."""

MAX_LENGTH = 10_000
"""The number of characters above which a condition is replaced by `EVERYTHING`."""

# Names that Kubernetes has; hugepages and attachable volumes have rare ones, which make a condition true.
_NATIVE_NAMES = ("cpu", "memory", "ephemeral-storage", "pods", "storage")
_DOMAIN_NAME = "[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
EXTENDED_NAME = f"^{_DOMAIN_NAME}/[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$"
"""A pattern of the names of extended resources, and of some of Kubernetes with a domain."""
_IS_MALFORMED = (
    f"(!(n in {json.dumps(list(_NATIVE_NAMES))}) && (!n.matches('{EXTENDED_NAME}') || n.contains('kubernetes.io/')"
    " || n.startsWith('requests.')))"
)
_HAS_DOMAIN = "n.contains('/')"
_MAX_ITEMS, _MAX_NAMES, _MAX_NAME_LENGTH, _MAX_ANNOTATIONS = 16, 8, 63, 50
_MAX_COST = 800_000  # of the 1,000,000 of one expression (PerCallLimit in k8s.io/apiserver pkg/apis/cel, v1.36)
_PATTERN = re.compile(r"\.matches\('([^']*)'\)")

# `o` is the object, `t` the pod, or the template of pods in it, or the object again; `c` what has lists of resources:
# a pod spec, a container, the spec of a quota, or an item of a limit range. `n` is the name of a resource.
_TEMPLATE = "o.?spec.?jobTemplate.?spec.?template.or(o.?spec.?template).or(o.?template).orValue(o)"
_LISTS_OF_ITEMS = [
    f"t.?spec.?{name}.orValue([])" for name in ("containers", "initContainers", "ephemeralContainers", "limits")
]
_ITEMS = ", ".join(["dyn([t.?spec.orValue({})])", *_LISTS_OF_ITEMS])
_OF_LIMITS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_LISTS = ", ".join(
    f"c.?{name}.orValue({{}})" for name in ("resources.?requests", "resources.?limits", "overhead", "hard", *_OF_LIMITS)
)
_NAMES_PASS = (
    f"({' + '.join(f'{items}.size()' for items in _LISTS_OF_ITEMS)} > {_MAX_ITEMS}"
    f" || [{_ITEMS}].exists(l, l.exists(c, [{_LISTS}].exists(r, r.size() > {_MAX_NAMES}"
    f" || r.exists(n, n.size() > {_MAX_NAME_LENGTH} || %s)))))"
)
_HAS_CLAIMS = "t.?spec.?resourceClaims.orValue([]).size() > 0"
_ANNOTATIONS = "t.?metadata.?annotations.orValue({})"
_HAS_GPU_ANNOTATIONS = (
    f"({_ANNOTATIONS}.size() > {_MAX_ANNOTATIONS} || {_ANNOTATIONS}.exists(key, key.size() > {_MAX_NAME_LENGTH}"
    f" || key in {json.dumps(sorted(KEYS))} || key.startsWith('{CONTAINER_MEMORY_PREFIX}')))"
)

_DIGEST_LENGTH = 12  # characters: they are no secret, and there are a few thousand at most

_IS_CLAIM = f"{KIND} in {json.dumps(sorted(CLAIM_KINDS))}"
_MAKES_PODS = f"!({KIND} in {json.dumps(['Pod', *sorted(CLAIM_KINDS), 'LimitRange', 'ResourceQuota'])})"
_HAS_PODS = f"!({KIND} in {json.dumps([*sorted(CLAIM_KINDS), 'LimitRange', 'ResourceQuota'])})"
_IS_QUOTA = f"{KIND} == 'ResourceQuota'"


AskingPolicy = ImpliedRequest | ResourceRule | NamespaceCap
"""A policy for which the gate is asked."""


class Part(StrEnum):
    """The objects that one webhook is asked about."""

    NAMESPACED = "namespaced"
    """Pods, workloads, claims, quotas and limit ranges of Kubernetes."""
    NODES = "nodes"
    WORKLOADS = "workloads"
    """Workloads of other projects."""
    SCALES = "scales"


class _Interest(NamedTuple):
    """The objects about which one policy has something to say, in its `scope` of kinds and namespaces.

    `always` is the condition of the objects about which it may have something to say whatever they request, `names` are
    tests of names `n` of which an object has to request one, and `pods` tests of the pod or template `t`.
    """

    scope: str
    always: str = NOTHING
    names: Sequence[str] = ()
    pods: Sequence[str] = ()


class MatchConditions:
    """The conditions of one policy set. `implies_requests` is true if a policy adds requests to new pods.

    `gives_devices` says whether a LimitRange of the cluster gives containers resources with a domain: then caps and
    rules about nodes concern pods of templates that name none.

    If it `asks_everything`, its conditions are true of all objects: for a registration that no gate keeps up to date.

    `digests` identify what each rule, implied request and cap has something to say about, and which one says it.
    """

    def __init__(self, policies: PolicySet, *, gives_devices: bool = True, asks_everything: bool = False) -> None:
        self.implies_requests = bool(policies.implied_requests)
        self._asks_everything = asks_everything
        implied = [_find_implied_interest(request) for request in policies.implied_requests]
        rules = [_find_rule_interest(rule, gives_devices=gives_devices) for rule in policies.rules]
        fills = [_find_rule_interest(_drop_nodes(rule), gives_devices=gives_devices) for rule in policies.rules]
        caps = [_find_cap_interest(cap, gives_devices=gives_devices) for cap in policies.caps]
        self._caps_scope = join_any(interest.scope for interest in caps)
        self._node_rules = any(rule.match.namespaces is None and _includes(rule, "Node") for rule in policies.rules)
        self._by_phase = {Phase.MUTATING: (*implied, *fills), Phase.VALIDATING: (*implied, *rules, *caps)}
        self.digests = frozenset(map(compute_digest, list_policies(policies)))

    def create(self, phase: Phase, part: Part, subjects: Sequence[str] = ("object",)) -> str:
        """Return the condition of a webhook; `EVERYTHING` if it has none, `NOTHING` if it need not exist.

        `subjects` are the variables with objects of which one has to pass: `object`, and `oldObject` of updates.
        """
        interests = self._by_phase[phase]
        if self._asks_everything:
            return EVERYTHING
        match part:
            case Part.NODES:
                condition = EVERYTHING if self._node_rules else NOTHING
            case Part.SCALES:
                condition = self._caps_scope
            case Part.WORKLOADS:
                condition = join_any(interest.scope for interest in interests)
            case Part.NAMESPACED:
                condition = _create_namespaced(interests, subjects)
        return condition if len(condition) <= MAX_LENGTH else EVERYTHING


def join_conditions(first: str, second: str) -> str:
    """Return the condition that is true if one of both is; the first one itself if it was joined with the second."""
    is_joined = first.startswith(f"({second} || ") or first.endswith(f" || {second})")
    joined = first if is_joined else join_any((first, second))
    return joined if len(joined) <= MAX_LENGTH else EVERYTHING


def compute_digest(policy: AskingPolicy) -> str:
    """Return the digest of what a policy has something to say about, and of its name."""
    text = "\n".join((type(policy).__name__, policy.name, *map(str, _find_interest(policy))))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]


def concerns_every_pod(policy: AskingPolicy) -> bool:
    """Return whether a policy has something to say about each pod of its namespaces, whatever that requests."""
    interest = _find_interest(policy)
    return _HAS_PODS in interest.always or EVERYTHING in interest.names


def _find_interest(policy: AskingPolicy) -> _Interest:
    match policy:
        case ResourceRule():
            return _find_rule_interest(policy, gives_devices=True)
        case NamespaceCap():
            return _find_cap_interest(policy, gives_devices=True)
        case ImpliedRequest():
            return _find_implied_interest(policy)


def list_policies(policies: PolicySet) -> tuple[AskingPolicy, ...]:
    """Return the policies for which the gate is asked."""
    return (*policies.implied_requests, *policies.rules, *policies.caps)


def _create_namespaced(interests: Sequence[_Interest], subjects: Sequence[str]) -> str:
    """Return the condition of the built-in kinds in namespaces: the names of an object are read once for all tests."""
    always = join_any(join_all((interest.scope, interest.always)) for interest in interests)
    names = join_any(
        join_all((scope, test)) for test, scope in _group_scopes(interests, lambda interest: interest.names)
    )
    pods = [join_all((scope, test)) for test, scope in _group_scopes(interests, lambda interest: interest.pods)]
    if estimate_cost(names) * len(subjects) > _MAX_COST:
        return EVERYTHING
    test = join_any((*pods, NOTHING if names == NOTHING else _NAMES_PASS % names))
    if test == NOTHING or always == EVERYTHING:
        return always
    return join_any((always, f"[{', '.join(subjects)}].exists(o, [{_TEMPLATE}].exists(t, {test}))"))


def estimate_cost(names: str) -> int:
    """Return the most that a test of the names of one object costs: a pattern is most of it.

    Each character of a pattern costs a fortieth for each character of a text (interpreter/runtimecost.go in cel-go,
    v0.26), and two lists of each container have names.
    """
    in_patterns = sum(map(len, _PATTERN.findall(names)))
    of_name = in_patterns * -(-_MAX_NAME_LENGTH // 40) + len(names) // 8 + 50
    return of_name * (2 * _MAX_ITEMS + 3) * _MAX_NAMES


def _group_scopes(
    interests: Iterable[_Interest], list_tests: Callable[[_Interest], Sequence[str]]
) -> Iterator[tuple[str, str]]:
    """Yield each test with the scopes in which it decides."""
    scopes: dict[str, list[str]] = {}
    for interest in interests:
        for test in list_tests(interest):
            scopes.setdefault(test, []).append(interest.scope)
    for test, scopes_of_test in scopes.items():
        yield test, join_any(scopes_of_test)


def _includes(rule: ResourceRule, kind: str) -> bool:
    return rule.match.kinds is None or kind in rule.match.kinds


def _find_implied_interest(request: ImpliedRequest) -> _Interest:
    return _Interest(format_namespaces(request.match.namespaces), always=_HAS_PODS)


def _drop_nodes(rule: ResourceRule) -> ResourceRule:
    """Return the rule without its checks of nodes, which only the validating phase evaluates."""
    checks = msgspec.structs.replace(rule.checks, advertised=False, schedulable=None)
    return msgspec.structs.replace(rule, checks=checks)


def _find_rule_interest(rule: ResourceRule, *, gives_devices: bool) -> _Interest:
    """Return what a rule checks; it reads the names of a quota without their prefixes."""
    checks = rule.checks
    names = _create_rule_test(rule.resources, checks)
    is_about_nodes = checks.advertised or checks.schedulable is not None
    always = [_IS_CLAIM] if checks.per_claim or checks.devices or checks.advertised else []
    if is_about_nodes and matches_resource(rule.resources, PODS):
        always.append(_HAS_PODS)  # each pod needs a place
    elif is_about_nodes and gives_devices:
        always.append(_MAKES_PODS)
    tests = [] if names == NOTHING else [names, join_all((_IS_QUOTA, _HAS_DOMAIN))]
    scope = join_all((format_namespaces(rule.match.namespaces), _format_kinds(rule.match.kinds)))
    return _Interest(scope, join_any(always), tests, [_HAS_CLAIMS] if is_about_nodes else [])


def _create_rule_test(patterns: Sequence[str], checks: Checks) -> str:
    """Return the test of the names that a rule checks.

    Its checks without a value are those of countable resources, which have a domain.
    """
    named = _create_pattern_test(patterns)
    equality = checks.requests_equal_limits
    demands = (checks.whole_quantity, checks.per_container, checks.per_pod, checks.advertised, checks.schedulable)
    if any(demands) or equality not in {None, Equality.IGNORE}:
        return named
    is_about_countable = checks.whole_quantity is None or equality is None
    if not is_about_countable and not checks.well_formed_name:
        return NOTHING
    if all("/" in pattern or pattern in FAMILY_PATTERNS for pattern in patterns if not pattern.startswith("!")):
        return named
    of_names = (_HAS_DOMAIN if is_about_countable else NOTHING, _IS_MALFORMED if checks.well_formed_name else NOTHING)
    return join_all((join_any(of_names), named))


def _create_pattern_test(patterns: Sequence[str]) -> str:
    """Return the test of the names that patterns match; of a family, all names with a domain."""
    included = [pattern for pattern in patterns if not pattern.startswith("!")]
    excluded = [pattern[1:] for pattern in patterns if pattern.startswith("!") and pattern[1:] not in FAMILY_PATTERNS]
    families = [_HAS_DOMAIN] if FAMILY_PATTERNS.keys() & set(included) else []
    test = join_any([*families, *format_globs("n", [glob for glob in included if glob not in FAMILY_PATTERNS])])
    return join_all((test, f"!({join_any(format_globs('n', excluded))})")) if excluded else test


def _find_cap_interest(cap: NamespaceCap, *, gives_devices: bool) -> _Interest:
    """Return what a cap counts, or warns of."""
    by_allocation = {name for name, device in cap.devices.items() if device.is_by_allocation}
    names = {name.removeprefix(LIMITS_PREFIX) for name in cap.list_requested_names() - by_allocation}
    reads_annotations = any(count.annotation is not None for count in cap.counts.values()) or any(
        VENDOR in name for name in names
    )
    has_classes = bool(cap.devices) or any(
        name.startswith(DEVICE_CLASS_PREFIX) or name.endswith(DEVICES_SUFFIX) for name in names
    )
    always = [_IS_CLAIM]
    if any("/" not in name for name in names):
        always.append(_HAS_PODS)
    elif gives_devices:
        always.append(_MAKES_PODS)
    # a class may map any of its names to the one that the cap counts
    of_classes = _HAS_DOMAIN if has_classes else f"n.startsWith({quote(DEVICE_CLASS_PREFIX)})"
    tests = [*format_globs("n", sorted(names)), of_classes] if names or has_classes else []
    pods = [_HAS_CLAIMS, *([_HAS_GPU_ANNOTATIONS] if reads_annotations else [])]
    return _Interest(format_namespaces(cap.namespaces), join_any(always), tests, pods)


def _format_kinds(kinds: Collection[str] | None) -> str:
    return EVERYTHING if kinds is None else f"{KIND} in {json.dumps(sorted(kinds))}"
