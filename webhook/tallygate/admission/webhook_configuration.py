"""The two webhook configurations that register the gate with an API server.

They are generated from the table of review targets, so that registration and evaluation always agree. Resources of
other projects are added if an API server serves them.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from msgspec.structs import replace

from tallygate.accounting.gpu_annotations import CONTAINER_MEMORY_PREFIX, KEYS
from tallygate.admission.kinds import BUILT_IN_TARGETS, SCALABLE_KINDS
from tallygate.admission.match_conditions import (
    EVERYTHING,
    NOTHING,
    LabelCondition,
    MatchConditions,
    Part,
    PartConditions,
)
from tallygate.admission.namespace_sets import (
    EVERY_NAMESPACE,
    NamespaceSet,
    format_requirements,
    read_namespace_set,
)
from tallygate.admission.object_tests import EXTENDED_NAME
from tallygate.admission.request import CREATE, UPDATE, Phase
from tallygate.admission.workload_resources import WORKLOAD_WEBHOOK, TopField, WorkloadResource
from tallygate.objects import admission_registration
from tallygate.objects.meta import LabelSelector, ObjectMeta, SelectorRequirement
from tallygate.policy.limit_annotations import ANNOTATION_PREFIX
from tallygate.policy.policy_config_maps import LABEL_VALUE, POLICIES_LABEL

CONFIGURATION_NAME = "tallygate"
"""The name of both configurations."""

DEFAULT_NAMESPACE = "tallygate-system"
"""The default namespace of the gate."""

ADMIT_PATH_PREFIX = "/v1/admit/"
"""The prefix of the URL path of a review; a secret segment may follow, then the phase."""

GroupKind = tuple[str, str]
"""Group and kind."""

_DOMAIN = "tallygate.dev"

LIMITS_WEBHOOK = f"limits.{Phase.VALIDATING}.{_DOMAIN}"
"""The name of the webhook of annotations that set limits."""

POLICIES_WEBHOOK = f"policies.{Phase.VALIDATING}.{_DOMAIN}"
"""The name of the webhook of ConfigMaps with policies."""

POLICY_CONDITION = "a-policy-may-decide"
"""The name of the match condition that is made from the policies."""

NOT_BY_NAME_CONDITION = "not-asked-by-name"
"""The name of the match condition by which a webhook for labels leaves objects to the webhook for all namespaces."""

_CHANGES = "changes-what-is-reviewed"
_AND_POLICY = f"-and-{POLICY_CONDITION}"
_AND = " &&\n"

_NAME_LABEL = "kubernetes.io/metadata.name"
_END_OF_NAME = rf"(?=[a-z]+[.]{re.escape(_DOMAIN)}$)"
_LABELS_PART = re.compile(rf"(?<![^.])labels-[0-9]+[.]{_END_OF_NAME}")  # of webhooks for namespaces with some labels
_PLACE_OF_LABELS_PART = re.compile(rf"(?<![^.]){_END_OF_NAME}")
_TIMEOUT_SECONDS = 5  # within the API server's 30, and long enough for a decision that waits in the queue
_ASKED: Mapping[str, tuple[Part, tuple[str, ...]]] = {
    "": (Part.NAMESPACED, ("object",)),
    "updates": (Part.NAMESPACED, ("object", "oldObject")),
    "nodes": (Part.NODES, ()),
    "scales": (Part.SCALES, ()),
}  # by the first part of a webhook's name; namespaces and annotations that set limits concern caps in other ways
_CLUSTER_SCOPED = frozenset({("", "Node")})
_NAMESPACED = frozenset(BUILT_IN_TARGETS) - _CLUSTER_SCOPED
_CLAIMS = frozenset(
    key for key in BUILT_IN_TARGETS if key[0] == "resource.k8s.io"
)  # no rule fills in anything of a claim
_NAMESPACED_BY_PHASE = {Phase.MUTATING: _NAMESPACED - _CLAIMS, Phase.VALIDATING: _NAMESPACED}

# The API server converts the whole object to plain maps before it evaluates a condition: a quarter of the work that
# the gate caused there for the creation of a pod (docs/design/performance.md). So creates and updates have two
# webhooks, and the validating phase has no condition for creates. Nodes are created rarely and have one webhook.
#
# The gate always allows an update that leaves the evaluated fields unchanged
# (tests/admission/test_match_conditions.py). Most updates do: heartbeats, finalizers, annotations of controllers.
_IS_OTHER_GPU_ANNOTATION = (
    f"(key in {sorted(KEYS)} || key.startsWith('{CONTAINER_MEMORY_PREFIX}'))"
    " && object.metadata.?annotations[?key] != oldObject.metadata.?annotations[?key]"
)
_OBJECT_CHANGES = (
    "object.?spec != oldObject.?spec"
    " || object.?template != oldObject.?template"  # of a PodTemplate, which has no spec
    " || object.metadata.?labels != oldObject.metadata.?labels"
)
_COUNTED_ANNOTATION_CHANGES = (
    f" || object.metadata.?annotations.orValue({{}}).exists(key, {_IS_OTHER_GPU_ANNOTATION})"
    f" || oldObject.metadata.?annotations.orValue({{}}).exists(key, {_IS_OTHER_GPU_ANNOTATION})"
)
_ALLOCATION_CHANGES = " || object.?status.?allocation != oldObject.?status.?allocation"  # of a claim
_NODE_CHANGES = (  # `||` ignores the error on CREATE, where the old object is missing
    "request.operation != 'UPDATE'"
    " || object.?status.?capacity != oldObject.?status.?capacity"
    " || object.?status.?allocatable != oldObject.?status.?allocatable"
    " || object.metadata.?labels != oldObject.metadata.?labels"
)
_REPLICAS_INCREASE = "object.spec.?replicas.orValue(0) > oldObject.spec.?replicas.orValue(0)"
_SELECTIONS = {"spec": ".?spec", "metadata": ".metadata"}
_LABELS_CHANGE = "object.metadata.?labels != oldObject.metadata.?labels"
_SETS_LIMIT = f"key.startsWith('{ANNOTATION_PREFIX}')"
_IS_OTHER_LIMIT = f"{_SETS_LIMIT} && object.metadata.?annotations[?key] != oldObject.metadata.?annotations[?key]"
_LIMITS_CHANGE = (
    f"request.operation != 'UPDATE' ? object.metadata.?annotations.orValue({{}}).exists(key, {_SETS_LIMIT}) : ("
    f"object.metadata.?annotations.orValue({{}}).exists(key, {_IS_OTHER_LIMIT})"
    f" || oldObject.metadata.?annotations.orValue({{}}).exists(key, {_IS_OTHER_LIMIT}))"
)
_NAMESPACE_CHANGES = f"{_LABELS_CHANGE} && !({_LIMITS_CHANGE})"  # each write has one review

# The API server skips the mutating phase for a pod without missing entries and without entries that the built-in
# validation between the phases would reject with a worse message; the validating phase sees every pod. Where a policy
# implies requests, nearly every new pod lacks one, so that the condition would only cost time. A pod outside
# these simple forms goes to both phases. The bounds keep hostile objects within the cost limit of a condition.
_NATIVE_RESOURCES = "['cpu', 'memory', 'ephemeral-storage']"
_WHOLE_QUANTITY = "^[0-9]{1,15}$"
_SMALL_QUANTITY = (
    "^([0-9]{1,12}|[0-9]{1,9}m|[0-9]{1,5}([kMG]|[KMG]i)|[0-9]{1,2}(T|Ti))$"  # never beyond 64 bits, even in sum
)
_MAX_CONTAINERS, _MAX_NAMES, _MAX_NAME_LENGTH = 20, 8, 200
_IS_SIMPLE_ENTRY = (
    f"(name in {_NATIVE_RESOURCES} && string(c.resources.requests[name]).matches('{_SMALL_QUANTITY}'))"
    f" || (name.size() <= {_MAX_NAME_LENGTH} && name.matches('{EXTENDED_NAME}') && !name.contains('kubernetes.io/')"
    f" && !name.startsWith('requests.') && string(c.resources.requests[name]).matches('{_WHOLE_QUANTITY}'))"
)
_IS_COMPLETE = (
    f"object.spec.%s.size() <= {_MAX_CONTAINERS} && object.spec.%s.all(c, !has(c.resources)"
    " || (has(c.resources.requests) ? has(c.resources.limits) && c.resources.requests == c.resources.limits"
    f" && c.resources.requests.size() <= {_MAX_NAMES} && c.resources.requests.all(name, {_IS_SIMPLE_ENTRY})"
    " : !has(c.resources.limits)))"
)
_MAY_BE_MUTATED = (
    "!has(object.spec) || !has(object.spec.containers)"  # it is no pod
    " || object.spec.containers == null"  # the API server rejects it, in its own words
    " || has(object.spec.resources) || has(object.spec.overhead)"
    f" || !({_IS_COMPLETE.replace('%s', 'containers')}"
    f" && (!has(object.spec.initContainers) || ({_IS_COMPLETE.replace('%s', 'initContainers')})))"
)


@dataclass(frozen=True, slots=True)
class ServiceTarget:
    """The address of the gate behind a Service of its cluster; `port` is the Service's own."""

    namespace: str = DEFAULT_NAMESPACE
    name: str = CONFIGURATION_NAME
    port: int = 443


@dataclass(frozen=True, slots=True)
class UrlTarget:
    """The address of the gate anywhere else: `base` is `https://HOST:PORT`, without a path."""

    base: str


WebhookTarget = ServiceTarget | UrlTarget
"""The address at which the API server reaches the gate."""


def create_webhook_configurations(  # noqa: PLR0913  # each is a choice
    target: WebhookTarget,
    *,
    ca_bundle: bytes = b"",
    failure_policy: str = "Fail",
    own_namespace: str = DEFAULT_NAMESPACE,
    exempt_namespaces: Iterable[str] = (),
    token: str = "",
    workload_resources: Sequence[WorkloadResource] = (),
    conditions: MatchConditions | None = None,
) -> tuple[admission_registration.WebhookConfiguration, admission_registration.WebhookConfiguration]:
    """Return the mutating and the validating configuration.

    `ca_bundle` is the PEM of the trusted CAs, `failure_policy` `Fail` or `Ignore` for pods and workloads,
    `own_namespace` the namespace of the gate, which its webhooks must not block, as little as `exempt_namespaces`, and
    `token` the secret segment of its paths, or empty. `workload_resources` are those of other projects. The
    webhooks have the `conditions` of the policies; without them the gate is asked about everything that policies may
    concern, but for the mutating phase of those that imply requests.
    """
    excluded = _exclude_namespaces(dict.fromkeys(("kube-system", own_namespace, *exempt_namespaces)))

    def webhooks(phase: Phase) -> tuple[admission_registration.Webhook, ...]:
        client_config = _create_client_config(target, f"{ADMIT_PATH_PREFIX}{token and f'{token}/'}{phase}", ca_bundle)
        is_mutating = phase is Phase.MUTATING
        is_selective = is_mutating and not (conditions is not None and conditions.implies_requests)
        created = [
            _create_creation_webhook(phase, failure_policy, excluded, is_selective=is_selective),
            _create_update_webhook(phase, failure_policy, excluded),
            _create_node_webhook(phase),
        ]
        if not is_mutating:
            created += [
                _create_namespace_webhook(),
                _create_limits_webhook(),
                _create_scale_webhook(excluded, workload_resources),
                _create_policies_webhook(own_namespace),
            ]
        if workload_resources:
            created.append(_create_workload_webhook(phase, failure_policy, excluded, workload_resources))
        if conditions is not None:
            created = [*_add_conditions(created, conditions, phase, workload_resources)]
        return tuple(
            replace(
                webhook,
                client_config=client_config,
                side_effects=webhook.side_effects or "NoneOnDryRun",
                timeout_seconds=_TIMEOUT_SECONDS,
                admission_review_versions=("v1",),
                reinvocation_policy="IfNeeded" if is_mutating else "Never",
            )
            for webhook in created
        )

    labels = {"app.kubernetes.io/name": CONFIGURATION_NAME, "app.kubernetes.io/component": "registration"}
    metadata = ObjectMeta(name=CONFIGURATION_NAME, labels=labels)
    return (
        admission_registration.WebhookConfiguration(metadata, webhooks(Phase.MUTATING), "MutatingWebhookConfiguration"),
        admission_registration.WebhookConfiguration(
            metadata, webhooks(Phase.VALIDATING), "ValidatingWebhookConfiguration"
        ),
    )


def _add_conditions(
    webhooks: Iterable[admission_registration.Webhook],
    conditions: MatchConditions,
    phase: Phase,
    resources: Sequence[WorkloadResource],
) -> Iterator[admission_registration.Webhook]:
    """Yield webhooks with the conditions of the policies, if they are about objects that these concern."""
    parts = {**_ASKED, WORKLOAD_WEBHOOK: (Part.WORKLOADS, _list_selections(resources, of_pods=True))}
    for webhook in webhooks:
        name = webhook.name.removesuffix(f"{phase}.{_DOMAIN}").removesuffix(".")
        if name in parts:
            yield from _set_conditions(webhook, conditions.create(phase, *parts[name]))
        else:
            yield webhook


def _set_conditions(
    webhook: admission_registration.Webhook, conditions: PartConditions
) -> Iterator[admission_registration.Webhook]:
    """Yield the webhook for all namespaces, then those for namespaces with some labels.

    An API server sends an object that is in no namespace to each webhook, whatever its selector is (k8s.io/apiserver
    pkg/admission/plugin/webhook/predicates/namespace, v1.37). So these have the rules for objects in namespaces alone.
    """
    own = list_own_conditions(webhook)
    yield replace(webhook, match_conditions=_join_conditions(own, conditions.by_name))
    rules = tuple(rule for rule in webhook.rules if rule.scope == "Namespaced")
    for number, (namespaces, expression) in enumerate(conditions.by_label if rules else (), 1):
        requirements = [*(webhook.namespace_selector.match_expressions or ()), *format_requirements(namespaces)]
        yield replace(
            webhook,
            name=_PLACE_OF_LABELS_PART.sub(f"labels-{number}.", webhook.name),
            namespace_selector=LabelSelector(match_expressions=requirements),
            match_conditions=_join_conditions(own, expression, conditions.by_name),
            rules=rules,
        )


def is_policy_condition(name: str) -> bool:
    """Return whether a match condition of this name is made from the policies, with that of the webhook or alone."""
    return name in {POLICY_CONDITION, NOT_BY_NAME_CONDITION} or name.endswith(_AND_POLICY)


def _join_conditions(
    own: Sequence[admission_registration.MatchCondition], expression: str, by_name: str = NOTHING
) -> tuple[admission_registration.MatchCondition, ...]:
    """Return the conditions of a webhook's own and of the policies, without those that are true of everything.

    An API server evaluates each condition, even after one that is false (k8s.io/apiserver
    pkg/admission/plugin/cel/condition.go, v1.37), but not the second part of a conjunction. So both are one condition.
    """
    joined = [*own]
    if expression != EVERYTHING and own:
        both = f"({own[0].expression}){_AND}({expression})"
        joined[0] = admission_registration.MatchCondition(own[0].name + _AND_POLICY, both)
    elif expression != EVERYTHING:
        joined.append(admission_registration.MatchCondition(POLICY_CONDITION, expression))
    if by_name != NOTHING:
        joined.append(admission_registration.MatchCondition(NOT_BY_NAME_CONDITION, f"!({by_name})"))
    return tuple(joined)


def list_own_conditions(webhook: admission_registration.Webhook) -> list[admission_registration.MatchCondition]:
    """Return the conditions of a webhook without the policies, as they were before these were joined to them."""
    own = []
    for condition in webhook.match_conditions:
        if condition.name.endswith(_AND_POLICY):
            name, expression = condition.name.removesuffix(_AND_POLICY), condition.expression.partition(_AND)[0]
            own.append(admission_registration.MatchCondition(name, expression[1:-1]))
        elif not is_policy_condition(condition.name):
            own.append(condition)
    return own


def _get_condition(webhook: admission_registration.Webhook) -> str:
    """Return the condition of the policies in the conditions of a webhook."""
    for condition in webhook.match_conditions:
        if condition.name == POLICY_CONDITION:
            return condition.expression
        if condition.name.endswith(_AND_POLICY):
            return condition.expression.partition(_AND)[2][1:-1]
    return EVERYTHING


def is_for_labels(webhook: admission_registration.Webhook) -> bool:
    """Return whether a webhook is called beside another one, in namespaces that it selects by their labels."""
    return get_base_name(webhook.name) != webhook.name


def get_base_name(name: str) -> str:
    """Return the name of the webhook for all namespaces of which a webhook is a part."""
    return _LABELS_PART.sub("", name)


def widen_webhooks(
    webhooks: Sequence[admission_registration.Webhook], stored: Sequence[admission_registration.Webhook]
) -> Iterator[admission_registration.Webhook]:
    """Yield webhooks that are called for what the stored ones are called for by the policies, too."""
    before = {webhook.name: conditions for webhook, conditions in _read_conditions(stored)}
    for webhook, conditions in _read_conditions(webhooks):
        yield from _set_conditions(webhook, conditions.widen(before.get(webhook.name, PartConditions(NOTHING))))


def _read_conditions(
    webhooks: Sequence[admission_registration.Webhook],
) -> Iterator[tuple[admission_registration.Webhook, PartConditions]]:
    """Yield each webhook for all namespaces, with the conditions of the policies in it and in those for labels."""
    by_label: dict[str, list[LabelCondition]] = {}
    for webhook in filter(is_for_labels, webhooks):
        condition = LabelCondition(_read_selected(webhook.namespace_selector), _get_condition(webhook))
        by_label.setdefault(get_base_name(webhook.name), []).append(condition)
    for webhook in webhooks:
        if not is_for_labels(webhook):
            yield webhook, PartConditions(_get_condition(webhook), tuple(by_label.get(webhook.name, ())))


def _read_selected(selector: LabelSelector) -> NamespaceSet:
    """Return the namespaces that a stored webhook selects, besides the exclusion of some by their names."""
    requirements = selector.match_expressions or []
    excludes = requirements[:1] and (requirements[0].key, requirements[0].operator) == (_NAME_LABEL, "NotIn")
    selected = replace(selector, match_expressions=requirements[1:] if excludes else requirements)
    return read_namespace_set(selected) or EVERY_NAMESPACE


def get_workload_webhook_name(phase: Phase) -> str:
    """Return the name of the webhook for resources of other projects."""
    return f"{WORKLOAD_WEBHOOK}.{phase}.{_DOMAIN}"


def _create_client_config(
    target: WebhookTarget, path: str, ca_bundle: bytes
) -> admission_registration.WebhookClientConfig:
    if isinstance(target, UrlTarget):
        return admission_registration.WebhookClientConfig(url=target.base.rstrip("/") + path, ca_bundle=ca_bundle)
    service = admission_registration.ServiceReference(target.namespace, target.name, target.port, path)
    return admission_registration.WebhookClientConfig(service=service, ca_bundle=ca_bundle)


def _create_creation_webhook(
    phase: Phase, failure_policy: str, excluded: LabelSelector, *, is_selective: bool
) -> admission_registration.Webhook:
    return admission_registration.Webhook(
        f"{phase}.{_DOMAIN}",
        failure_policy=failure_policy,
        namespace_selector=excluded,
        match_conditions=(admission_registration.MatchCondition("may-be-mended", _MAY_BE_MUTATED),)
        if is_selective
        else (),
        rules=_list_creation_rules(_NAMESPACED_BY_PHASE[phase], "Namespaced"),
    )


def _create_update_webhook(
    phase: Phase, failure_policy: str, excluded: LabelSelector
) -> admission_registration.Webhook:
    extra_condition = _ALLOCATION_CHANGES + _COUNTED_ANNOTATION_CHANGES if phase is Phase.VALIDATING else ""
    return admission_registration.Webhook(
        f"updates.{phase}.{_DOMAIN}",
        failure_policy=failure_policy,
        namespace_selector=excluded,
        match_conditions=(admission_registration.MatchCondition(_CHANGES, _OBJECT_CHANGES + extra_condition),),
        rules=_list_update_rules(_NAMESPACED_BY_PHASE[phase], "Namespaced"),
    )


def _exclude_namespaces(namespaces: Iterable[str]) -> LabelSelector:
    requirement = SelectorRequirement(_NAME_LABEL, "NotIn", list(namespaces))
    return LabelSelector(match_expressions=[requirement])


def _create_node_webhook(phase: Phase) -> admission_registration.Webhook:
    """Return the webhook of nodes; its failure policy accepts nodes while the gate is unavailable.

    If all nodes of a cluster are replaced at once, the gate has no node to run on until one has registered.
    """
    return admission_registration.Webhook(
        f"nodes.{phase}.{_DOMAIN}",
        failure_policy="Ignore",
        match_conditions=(admission_registration.MatchCondition(_CHANGES, _NODE_CHANGES),),
        rules=_list_creation_rules(_CLUSTER_SCOPED, "Cluster") + _list_update_rules(_CLUSTER_SCOPED, "Cluster"),
    )


def _create_namespace_webhook() -> admission_registration.Webhook:
    """Return the webhook of namespaces whose labels change: it warns of a cap that the new labels select."""
    return admission_registration.Webhook(
        f"namespaces.{Phase.VALIDATING}.{_DOMAIN}",
        failure_policy="Ignore",
        match_conditions=(admission_registration.MatchCondition("changes-labels", _NAMESPACE_CHANGES),),
        rules=(_create_namespace_update_rule(),),
    )


def _create_namespace_update_rule() -> admission_registration.WebhookRule:
    return _create_rule("", ["namespaces", "namespaces/finalize", "namespaces/status"], (UPDATE,), "Cluster")


def _create_limits_webhook() -> admission_registration.Webhook:
    """Return the webhook of annotations that set limits, which denies one by a user that the cap does not name.

    It fails closed whatever the failure policy of the others is: nothing that a cluster needs to start or to recover
    changes such an annotation, and a raise that no gate admitted would stay after the outage. It excludes no namespace,
    since one that is excluded today may be a member of a cap later.
    """
    return admission_registration.Webhook(
        LIMITS_WEBHOOK,
        failure_policy="Fail",
        match_conditions=(admission_registration.MatchCondition("changes-limits", _LIMITS_CHANGE),),
        rules=(_create_rule("", ["namespaces"], (CREATE,), "Cluster"), _create_namespace_update_rule()),
    )


def _create_scale_webhook(
    excluded: LabelSelector, resources: Sequence[WorkloadResource]
) -> admission_registration.Webhook:
    """Return the webhook of scale requests that add pods.

    Autoscalers send them all day, so the failure policy accepts them while the gate is unavailable.
    """
    built_in = sorted(
        (group, plural) for (group, plural), kind in SCALABLE_KINDS.items() if (group, kind) in _NAMESPACED
    )
    return admission_registration.Webhook(
        f"scales.{Phase.VALIDATING}.{_DOMAIN}",
        failure_policy="Ignore",
        namespace_selector=excluded,
        match_conditions=(admission_registration.MatchCondition("asks-for-more", _REPLICAS_INCREASE),),
        rules=(
            *(
                _create_rule(group, [f"{plural}/scale" for _, plural in members], (UPDATE,), "Namespaced")
                for group, members in groupby(built_in, key=lambda resource: resource[0])
            ),
            *(
                _create_rule(resource.group, [f"{resource.plural}/scale"], (UPDATE,), "Namespaced", resource.version)
                for resource in resources
                if (resource.group, resource.plural) in SCALABLE_KINDS
            ),
        ),
    )


def _create_policies_webhook(own_namespace: str) -> admission_registration.Webhook:
    """Return the webhook of ConfigMaps with policies in the gate's namespace: it denies those that no gate would load.

    Its failure policy accepts them while the gate is unavailable: an outage prevents no repair, and a gate keeps its
    last valid set whatever is stored. No ConfigMap without the label is sent.
    """
    return admission_registration.Webhook(
        POLICIES_WEBHOOK,
        failure_policy="Ignore",
        namespace_selector=LabelSelector(match_expressions=[SelectorRequirement(_NAME_LABEL, "In", [own_namespace])]),
        object_selector=LabelSelector(match_labels={POLICIES_LABEL: LABEL_VALUE}),
        rules=(_create_rule("", ["configmaps"], (CREATE, UPDATE), "Namespaced"),),
        side_effects="None",
    )


def _create_workload_webhook(
    phase: Phase, failure_policy: str, excluded: LabelSelector, resources: Sequence[WorkloadResource]
) -> admission_registration.Webhook:
    """Return the webhook of resources of other projects, which are created rarely and have one webhook.

    Their controllers update them often, and some of these resources have no subresource for the status.
    """
    changes = "".join(f" || object{selection} != oldObject{selection}" for selection in _list_selections(resources))
    condition = f"request.operation != 'UPDATE'{changes} || {_LABELS_CHANGE}"
    return admission_registration.Webhook(
        get_workload_webhook_name(phase),
        failure_policy=failure_policy,
        namespace_selector=excluded,
        match_conditions=(admission_registration.MatchCondition(_CHANGES, condition),),
        rules=_list_workload_rules(resources),
    )


def _list_selections(resources: Iterable[WorkloadResource], *, of_pods: bool = False) -> tuple[str, ...]:
    """Return the selections in CEL of the fields of resources; those `of_pods` are not in the metadata."""
    fields = dict.fromkeys(field for resource in resources for field in resource.fields)
    return tuple(_format_selection(field) for field in fields if not (of_pods and field[0] == "metadata"))


def _format_selection(field: TopField) -> str:
    """Return the selection of a field in CEL, by its index: its name may have a dash, or be a word of CEL."""
    return "".join(_SELECTIONS.get(step) or f"[?{json.dumps(step, ensure_ascii=False)}]" for step in field)


def _list_workload_rules(resources: Sequence[WorkloadResource]) -> tuple[admission_registration.WebhookRule, ...]:
    """Return one rule for the resources of one group, version and scope."""
    groups = groupby(sorted(resources), key=lambda resource: (resource.group, resource.version, resource.is_namespaced))
    return tuple(
        _create_rule(
            group,
            [member.plural for member in members],
            (CREATE, UPDATE),
            "Namespaced" if is_namespaced else "Cluster",
            version,
        )
        for (group, version, is_namespaced), members in groups
    )


def _list_creation_rules(kinds: Iterable[GroupKind], scope: str) -> tuple[admission_registration.WebhookRule, ...]:
    """Return one rule per group, without subresources, because they are never created."""
    return tuple(
        _create_rule(group, [BUILT_IN_TARGETS[key].plural for key in members], (CREATE,), scope)
        for group, members in _group_by_api_group(kinds)
    )


def _list_update_rules(kinds: Iterable[GroupKind], scope: str) -> tuple[admission_registration.WebhookRule, ...]:
    """Return one rule per group, with its subresources."""
    return tuple(
        _create_rule(group, [resource for key in members for resource in _list_resources(key)], (UPDATE,), scope)
        for group, members in _group_by_api_group(kinds)
    )


def _group_by_api_group(kinds: Iterable[GroupKind]) -> Iterator[tuple[str, Iterator[GroupKind]]]:
    return groupby(sorted(kinds), key=lambda kind: kind[0])


def _list_resources(kind: GroupKind) -> list[str]:
    target = BUILT_IN_TARGETS[kind]
    return [
        f"{target.plural}/{subresource}" if subresource else target.plural
        for subresource in sorted(target.subresources)
    ]


def _create_rule(
    group: str, resources: Iterable[str], operations: tuple[str, ...], scope: str, version: str = "v1"
) -> admission_registration.WebhookRule:
    return admission_registration.WebhookRule((group,), (version,), tuple(resources), operations, scope)
