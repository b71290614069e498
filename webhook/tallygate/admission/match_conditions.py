"""The objects that policies have something to say about, as a condition in CEL, by which the API server asks the gate.

A condition is false only for objects of which no policy could deny, warn of, charge or change anything, whatever else
the cluster has; for others it may be true. Each policy contributes its namespaces by name, its kinds, and the names of
resources that an object has to have.

Labels of namespaces are unknown in a condition, so policies that select by labels have webhooks of their own, each with
a selector of namespaces. The selectors are disjoint, and the condition of these webhooks excludes what the webhook
without a selector is called for: no object is sent twice in one phase. A policy that selects by name never depends on
labels, which may change while an API server compares them. Policies with selectors beyond `MAX_LABEL_WEBHOOKS`
contribute all namespaces that they select by name.

An API server rejects a request for which a condition fails under `failurePolicy: Fail` (k8s.io/apiserver
pkg/admission/plugin/webhook/matchconditions, v1.36). So no condition reads a field that may be absent, and long lists
and names make it true before their evaluation would reach the cost limit.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import reduce
from typing import NamedTuple

import msgspec

from tallygate.accounting.charge import PODS
from tallygate.accounting.gpu_annotations import VENDOR
from tallygate.accounting.names import DEVICE_CLASS_PREFIX, DEVICES_SUFFIX, LIMITS_PREFIX
from tallygate.admission.cel_texts import FALSE, KIND, TRUE, format_globs, format_namespaces, join_all, join_any, quote
from tallygate.admission.namespace_sets import (
    EVERY_NAMESPACE,
    NamespaceSet,
    create_namespace_set,
    create_value_set,
    find_only_values,
    intersect,
    subtract_all,
)
from tallygate.admission.object_tests import (
    HAS_CLAIMS,
    HAS_DOMAIN,
    HAS_GPU_ANNOTATIONS,
    IS_MALFORMED,
    create_object_condition,
    create_plain_condition,
    estimate_cost,
)
from tallygate.admission.request import Phase
from tallygate.admission.workload_texts import (
    CLAIMS,
    GPU_ANNOTATIONS,
    NATIVE_NAMES,
    PATCHES,
    create_name_tests,
    create_text_condition,
    estimate_text_cost,
)
from tallygate.policy.matching import FAMILY_PATTERNS, matches_resource, names_every_class
from tallygate.policy.model import CLAIM_KINDS, Checks, Equality, ImpliedRequest, NamespaceCap, PolicySet, ResourceRule
from tallygate.policy.selectors import NamespaceSelector

EVERYTHING = TRUE
"""The condition of a webhook that is asked about every object of its kinds."""

NOTHING = FALSE
"""The condition of a webhook that need not exist."""

MAX_LENGTH = 10_000
"""The number of characters above which a condition is replaced by `EVERYTHING`."""

MAX_LABEL_WEBHOOKS = 8
"""The number of disjoint selectors of namespaces, each of which adds a webhook to each of up to four parts.

An API server compares every request, of whatever kind, with the selector of every webhook: a third of a microsecond
for each. A change of the registration compiles the conditions of all of them.
"""

_MAX_COST = 800_000  # of the 1,000,000 of one expression (PerCallLimit in k8s.io/apiserver pkg/apis/cel, v1.36)
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


class _Scope(NamedTuple):
    """Kinds, and namespaces by globs of names: those of one of `included` and none of `excluded`.

    None for kinds, and no included globs, are all.
    """

    included: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    kinds: tuple[str, ...] | None = None


_NOWHERE = _Scope(kinds=())


class _Interest(NamedTuple):
    """The objects about which one policy has something to say, in its `scope` of kinds and namespaces.

    `always` are conditions of the objects about which it may have something to say whatever they request, `names` are
    tests of names `n` of which an object has to request one, and `pods` tests of the pod or template `t`. Of a pod that
    names no resource but those of Kubernetes, none of `names` is true unless it `reads_native_names`. `texts` are
    tests of the text `s` of a workload of another project, and `text_names` of one with names that Kubernetes lacks.
    `namespaces` are those whose labels the policy selects.
    """

    scope: _Scope
    always: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    reads_native_names: bool = False
    pods: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    text_names: tuple[str, ...] = ()
    namespaces: NamespaceSet = EVERY_NAMESPACE


class LabelCondition(NamedTuple):
    """The condition of a webhook that is called for objects in some namespaces, which it selects by their labels."""

    namespaces: NamespaceSet
    expression: str


class PartConditions(NamedTuple):
    """The conditions of the webhooks of one part: `by_name` that of the one for all namespaces.

    An object in the namespaces of one of `by_label`, which are disjoint, passes if it passes that one or `by_name`.
    """

    by_name: str
    by_label: tuple[LabelCondition, ...] = ()

    def widen(self, stored: "PartConditions") -> "PartConditions":
        """Return conditions that every object passes which passes these or the stored ones.

        Those that were widened by these before stay as they are. Stored selectors that are no longer used have webhooks
        as long as there are few; beyond that, their conditions are those of all namespaces.
        """
        by_label = [
            each._replace(expression=_join_stored(stored.by_label, each.namespaces, each.expression))
            for each in self.by_label
        ]
        by_name = [stored.by_name]
        for namespaces, expression in stored.by_label:
            rest = subtract_all(namespaces, [each.namespaces for each in by_label])
            if len(by_label) + len(rest) > MAX_LABEL_WEBHOOKS:
                by_name.append(expression)
            else:
                by_label += [LabelCondition(part, expression) for part in rest]
        return _create_part(reduce(join_conditions, [*by_name, self.by_name]), by_label)


def _join_stored(stored: Iterable[LabelCondition], namespaces: NamespaceSet, expression: str) -> str:
    """Return the condition of some namespaces, joined with the stored ones that may be those of objects in them."""
    found = [each.expression for each in stored if intersect(each.namespaces, namespaces) is not None]
    return reduce(join_conditions, [*found, expression])


def _create_part(by_name: str, by_label: Iterable[LabelCondition]) -> PartConditions:
    if by_name == EVERYTHING:
        return PartConditions(by_name)
    return PartConditions(by_name, tuple(each for each in by_label if each.expression not in {NOTHING, by_name}))


class MatchConditions:
    """The conditions of one policy set. `implies_requests` is true if a policy adds requests to new pods.

    `gives_devices` says whether a LimitRange of the cluster gives containers resources with a domain: then caps and
    rules about nodes concern pods of templates that name none.

    If it `asks_everything`, its conditions are true of all objects: for a registration that no gate keeps up to date.

    `digests` identify what each rule, implied request and cap has something to say about, and which one says it.
    `unselected` are the names of policies that select namespaces by labels for which there are too many selectors.
    """

    def __init__(self, policies: PolicySet, *, gives_devices: bool = True, asks_everything: bool = False) -> None:
        self.implies_requests = bool(policies.implied_requests)
        self._asks_everything = asks_everything
        implied = [_find_implied_interest(request) for request in policies.implied_requests]
        rules = [_find_rule_interest(rule, gives_devices=gives_devices) for rule in policies.rules]
        fills = [_find_rule_interest(_drop_nodes(rule), gives_devices=gives_devices) for rule in policies.rules]
        caps = [_find_cap_interest(cap, gives_devices=gives_devices) for cap in policies.caps]
        self._node_rules = any(rule.match.namespaces is None and _includes(rule, "Node") for rule in policies.rules)
        by_phase = {Phase.MUTATING: (*implied, *fills), Phase.VALIDATING: (*implied, *rules, *caps)}
        self._by_phase = {phase: _divide(interests) for phase, interests in by_phase.items()}
        self._of_caps = _divide(caps)
        listed = list_policies(policies)
        self.digests = frozenset(map(compute_digest, listed))
        self.unselected = frozenset(
            policy.name
            for phase, interests in by_phase.items()
            for policy, interest in zip(listed, interests, strict=False)  # caps concern one phase
            if interest in self._by_phase[phase].unselected
        )

    def create(self, phase: Phase, part: Part, subjects: Sequence[str] = ("object",)) -> PartConditions:
        """Return the conditions of webhooks; `EVERYTHING` if one has none, `NOTHING` if it need not exist.

        `subjects` are the variables with objects of which one has to pass: `object`, and `oldObject` of updates. For
        workloads of other projects they are the selections of the fields with their pods.
        """
        if self._asks_everything:
            return PartConditions(EVERYTHING)
        match part:
            case Part.NODES:
                return PartConditions(EVERYTHING if self._node_rules else NOTHING)
            case Part.SCALES:
                return self._of_caps.create(_create_scope)
            case Part.WORKLOADS:
                return self._by_phase[phase].create(lambda interests: _create_workloads(interests, subjects))
            case Part.NAMESPACED:
                return self._by_phase[phase].create(lambda interests: _create_namespaced(interests, subjects))


class _DividedInterests(NamedTuple):
    """The interests of policies in all namespaces, and in those of disjoint selectors of labels.

    `unselected` are those of policies that select by labels, and are among the first, since there are too many.
    """

    by_name: Sequence[_Interest]
    by_label: Sequence[tuple[NamespaceSet, Sequence[_Interest]]]
    unselected: frozenset[_Interest]

    def create(self, create_condition: Callable[[Sequence[_Interest]], str]) -> PartConditions:
        """Return the conditions that a function makes of interests."""
        by_name = _limit(create_condition(self.by_name))
        by_label = [
            LabelCondition(namespaces, _limit(create_condition(interests))) for namespaces, interests in self.by_label
        ]
        return _create_part(by_name, by_label)


def _divide(interests: Iterable[_Interest]) -> _DividedInterests:
    """Divide the namespaces that policies select by labels into disjoint sets, those of the widest policies first.

    A policy contributes to each set that has namespaces of its own. Sets of one label with the same policies but for
    their names are one.
    """
    by_name: list[_Interest] = []
    groups: dict[NamespaceSet, dict[_Interest, None]] = {}
    for interest in interests:
        if interest.namespaces == EVERY_NAMESPACE:
            by_name.append(interest)
        else:
            groups.setdefault(interest.namespaces, {})[interest] = None
    selected: list[tuple[NamespaceSet, Sequence[_Interest]]] = []
    divided: list[NamespaceSet] = []
    unselected: list[_Interest] = []
    for namespaces, members in sorted(_unite_values(groups), key=_get_order):
        parts = subtract_all(namespaces, [each for each, _ in selected])
        if len(divided) + len(parts) > MAX_LABEL_WEBHOOKS:
            unselected += members
            continue
        divided += parts
        selected.append((namespaces, members))
    by_label = [
        (
            part,
            [each for namespaces, members in selected if intersect(part, namespaces) is not None for each in members],
        )
        for part in divided
    ]
    return _DividedInterests([*by_name, *unselected], by_label, frozenset(unselected))


def _unite_values(
    groups: Mapping[NamespaceSet, Iterable[_Interest]],
) -> Iterator[tuple[NamespaceSet, Sequence[_Interest]]]:
    """Yield the groups; those for values of one label, whose policies are alike but for these, are one group."""
    united: dict[tuple[str, frozenset[_Interest]], tuple[set[str], list[_Interest]]] = {}
    for namespaces, members in groups.items():
        found = find_only_values(namespaces)
        if found is None:
            yield namespaces, tuple(members)
            continue
        key, values = found
        alike = frozenset(member._replace(namespaces=EVERY_NAMESPACE) for member in members)
        all_values, all_members = united.setdefault((key, alike), (set(), []))
        all_values.update(values)
        all_members.extend(members)
    for (key, _), (all_values, all_members) in united.items():
        yield create_value_set(key, all_values), tuple(all_members)


def _get_order(group: tuple[NamespaceSet, Sequence[_Interest]]) -> tuple[bool, int, NamespaceSet]:
    """Return the place of a group: what concerns every pod first, then selectors with few labels."""
    namespaces, members = group
    return not any(map(_is_about_every_pod, members)), len(namespaces), namespaces


def _create_scope(interests: Iterable[_Interest]) -> str:
    return _format_scopes(interest.scope for interest in interests)


def _format_scopes(scopes: Iterable[_Scope]) -> str:
    """Return the condition of objects in one of the scopes; all names of namespaces are compared at once."""
    united: dict[_Scope, tuple[str, ...]] = {}
    for scope in scopes:
        rest = scope._replace(included=())
        united[rest] = (*united.get(rest, ()), *(scope.included or ("*",)))
    return join_any(
        join_all((format_namespaces(dict.fromkeys(included), scope.excluded), _format_kinds(scope.kinds)))
        for scope, included in united.items()
    )


def _limit(condition: str) -> str:
    return condition if len(condition) <= MAX_LENGTH else EVERYTHING


def join_conditions(first: str, second: str) -> str:
    """Return the condition that is true if one of both is; the first one itself if it was joined with the second."""
    is_joined = first.startswith(f"({second} || ") or first.endswith(f" || {second})")
    joined = first if is_joined else join_any((first, second))
    cost = 2 * estimate_cost(joined) + estimate_text_cost(joined)
    return _limit(joined) if cost <= _MAX_COST else EVERYTHING


def compute_digest(policy: AskingPolicy) -> str:
    """Return the digest of what a policy has something to say about, and of its name."""
    text = "\n".join((type(policy).__name__, policy.name, *map(str, _find_interest(policy))))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]


def concerns_every_pod(policy: AskingPolicy) -> bool:
    """Return whether a policy has something to say about each pod of its namespaces, whatever that requests."""
    return _is_about_every_pod(_find_interest(policy))


def _is_about_every_pod(interest: _Interest) -> bool:
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
    """Return the condition of the built-in kinds in namespaces.

    For a plain pod only what concerns each pod is evaluated, unless a policy reads the names of Kubernetes.
    """
    about_pods: list[str] = []
    others: list[str] = []
    for test, scope in _group_scopes(interests, lambda interest: interest.always):
        (about_pods if test == _HAS_PODS else others).append(join_all((scope, test)))
    names, pods = (
        [join_all((scope, test)) for test, scope in _group_scopes(interests, list_tests)]
        for list_tests in (lambda interest: interest.names, lambda interest: interest.pods)
    )
    if estimate_cost(join_any(names)) * len(subjects) > _MAX_COST:
        return EVERYTHING
    objects = create_object_condition(subjects, join_any(names), pods)
    if objects == NOTHING:
        return join_any((*about_pods, *others))
    is_plain = create_plain_condition(
        subjects, reads_annotations=any(HAS_GPU_ANNOTATIONS in interest.pods for interest in interests)
    )
    reads_native_names = _create_scope(interest for interest in interests if interest.reads_native_names)
    may_decide = join_any((reads_native_names, f"!({is_plain})"))
    return join_any((*about_pods, join_all((may_decide, join_any((*others, objects))))))


def _create_workloads(interests: Sequence[_Interest], selections: Sequence[str]) -> str:
    """Return the condition of workloads of other projects, by the text of the fields that the selections have."""
    wide = _create_scope(interest for interest in interests if EVERYTHING in interest.texts)
    others = [interest for interest in interests if EVERYTHING not in interest.texts]
    texts, names = (
        [join_all((scope, test)) for test, scope in _group_scopes(others, list_tests)]
        for list_tests in (lambda interest: interest.texts, lambda interest: interest.text_names)
    )
    condition = create_text_condition(selections, _create_scope(others), texts, join_any(names))
    return join_any((wide, condition)) if estimate_text_cost(condition) <= _MAX_COST else _create_scope(interests)


def _group_scopes(
    interests: Iterable[_Interest], list_tests: Callable[[_Interest], Sequence[str]]
) -> Iterator[tuple[str, str]]:
    """Yield each test with the scopes in which it decides."""
    scopes: dict[str, list[_Scope]] = {}
    for interest in interests:
        for test in list_tests(interest):
            scopes.setdefault(test, []).append(interest.scope)
    for test, scopes_of_test in scopes.items():
        yield test, _format_scopes(scopes_of_test)


def _includes(rule: ResourceRule, kind: str) -> bool:
    return rule.match.kinds is None or kind in rule.match.kinds


def _find_implied_interest(request: ImpliedRequest) -> _Interest:
    interest = _Interest(_create_policy_scope(request.match.namespaces), always=(_HAS_PODS,), texts=(EVERYTHING,))
    return _select(request.match.namespaces, interest)


def _drop_nodes(rule: ResourceRule) -> ResourceRule:
    """Return the rule without its checks of nodes, which only the validating phase evaluates."""
    checks = msgspec.structs.replace(rule.checks, advertised=False, schedulable=None)
    return msgspec.structs.replace(rule, checks=checks)


def _find_rule_interest(rule: ResourceRule, *, gives_devices: bool) -> _Interest:
    """Return what a rule checks; it reads the names of a quota without their prefixes."""
    checks = rule.checks
    names = _create_rule_test(rule.resources, checks)
    is_about_nodes = checks.advertised or checks.schedulable is not None
    limits_claims = checks.active_deadline_seconds is not None and names_every_class(rule.resources)
    always = [_IS_CLAIM] if checks.per_claim or checks.devices or checks.advertised else []
    if is_about_nodes and matches_resource(rule.resources, PODS):
        always.append(_HAS_PODS)  # each pod needs a place
    elif is_about_nodes and gives_devices:
        always.append(_MAKES_PODS)
    tests = [] if names == NOTHING else [names, join_all((_IS_QUOTA, HAS_DOMAIN))]
    reads_native_names = names != NOTHING and _is_about_each_name(checks) and _matches_native_name(rule.resources)
    is_wide = reads_native_names or {_HAS_PODS, _MAKES_PODS} & {*always}
    texts = () if names == NOTHING else (PATCHES,)
    interest = _Interest(
        _create_policy_scope(rule.match.namespaces, rule.match.kinds),
        tuple(always),
        tuple(tests),
        reads_native_names,
        pods=(HAS_CLAIMS,) if is_about_nodes or limits_claims else (),
        texts=(EVERYTHING,) if is_wide else (*texts, CLAIMS) if is_about_nodes or limits_claims else texts,
        text_names=() if names == NOTHING else create_name_tests(rule.resources),
    )
    return _select(rule.match.namespaces, interest)


def _create_rule_test(patterns: Sequence[str], checks: Checks) -> str:
    """Return the test of the names that a rule checks.

    Its checks without a value are those of countable resources, which have a domain.
    """
    named = _create_pattern_test(patterns)
    if _is_about_each_name(checks):
        return named
    is_about_countable = checks.whole_quantity is None or checks.requests_equal_limits is None
    if not is_about_countable and not checks.well_formed_name:
        return NOTHING
    if all("/" in pattern or pattern in FAMILY_PATTERNS for pattern in patterns if not pattern.startswith("!")):
        return named
    of_names = (HAS_DOMAIN if is_about_countable else NOTHING, IS_MALFORMED if checks.well_formed_name else NOTHING)
    return join_all((join_any(of_names), named))


def _is_about_each_name(checks: Checks) -> bool:
    """Return whether checks concern every name that a rule has, not only those with a domain, or malformed ones."""
    demands = (
        checks.whole_quantity,
        checks.per_container,
        checks.per_pod,
        checks.advertised,
        checks.schedulable,
        checks.active_deadline_seconds,
    )
    return any(demands) or checks.requests_equal_limits not in {None, Equality.IGNORE}


def _matches_native_name(patterns: tuple[str, ...]) -> bool:
    return any(matches_resource(patterns, name) for name in NATIVE_NAMES)


def _create_pattern_test(patterns: Sequence[str]) -> str:
    """Return the test of the names that patterns match; of a family, all names with a domain."""
    included = [pattern for pattern in patterns if not pattern.startswith("!")]
    excluded = [pattern[1:] for pattern in patterns if pattern.startswith("!") and pattern[1:] not in FAMILY_PATTERNS]
    families = [HAS_DOMAIN] if FAMILY_PATTERNS.keys() & set(included) else []
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
    of_classes = HAS_DOMAIN if has_classes else f"n.startsWith({quote(DEVICE_CLASS_PREFIX)})"
    tests = (*format_globs("n", sorted(names)), of_classes) if names or has_classes else ()
    pods = (HAS_CLAIMS, *((HAS_GPU_ANNOTATIONS,) if reads_annotations else ()))
    is_wide = len(always) > 1
    interest = _Interest(
        _create_policy_scope(cap.namespaces),
        tuple(always),
        tests,
        pods=pods,
        texts=(EVERYTHING,) if is_wide else (PATCHES, CLAIMS, *((GPU_ANNOTATIONS,) if reads_annotations else ())),
        text_names=(EVERYTHING,) if has_classes else create_name_tests((*sorted(names), f"{DEVICE_CLASS_PREFIX}*")),
    )
    return _select(cap.namespaces, interest, cap.group_by)


def _select(selector: NamespaceSelector | None, interest: _Interest, present: str = "") -> _Interest:
    """Return the interest of a policy in the namespaces that it selects by their labels, which include `present`."""
    namespaces = create_namespace_set(selector.selector if selector is not None else None, present)
    return _Interest(_NOWHERE) if namespaces is None else interest._replace(namespaces=namespaces)


def _create_policy_scope(selector: NamespaceSelector | None, kinds: Collection[str] | None = None) -> _Scope:
    included, excluded = (selector.include, selector.exclude) if selector is not None else ((), ())
    return _Scope(included, excluded, None if kinds is None else tuple(sorted(kinds)))


def _format_kinds(kinds: Sequence[str] | None) -> str:
    if kinds is None:
        return EVERYTHING
    return f"{KIND} in {json.dumps(kinds)}" if kinds else NOTHING
