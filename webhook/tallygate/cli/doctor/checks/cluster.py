"""Checks of the cluster under the gate's policies: quotas, names, annotations, devices, kinds and nodes."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tallygate.accounting.amounts import format_amount, round_down_to_unit
from tallygate.accounting.claim_charge import find_device_sources
from tallygate.accounting.names import OPAQUE_PREFIX, REQUESTS_PREFIX
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.admission.request import CREATE, UPDATE, Phase
from tallygate.admission.self_registration import is_left_to_gate
from tallygate.admission.webhook_configuration import get_workload_webhook_name
from tallygate.admission.workload_resources import WorkloadResource
from tallygate.backstop.compilation import Difference, compare_objects, compile_policies
from tallygate.backstop.resource_quotas import ObservedCluster
from tallygate.cli.compile.cluster_objects import ALWAYS_EXCLUDED, list_excluded_names
from tallygate.cli.doctor import check_result
from tallygate.cli.doctor.api_types import LabelledNamespace
from tallygate.cli.doctor.facts import (
    MUTATING,
    VALIDATING,
    CapLimits,
    GateFacts,
    OpaqueNameUser,
    ServedKind,
    Unavailable,
)
from tallygate.cli.doctor.webhook_match import ExpectedConfigurations, RequestKind, has_webhook_for, is_called_for_pods
from tallygate.objects.admission_registration import WebhookConfiguration
from tallygate.objects.core import ResourceQuota
from tallygate.policy import limit_annotations
from tallygate.policy.model import NamespaceCap
from tallygate.review.quota_forecast import is_compiled

_IGNORE = "Ignore"


@check_result.check(
    "quotas",
    "No ResourceQuota bounds what a cap bounds otherwise",
    "WARN: both limit the same resource in a namespace, so that one of them never rejects",
)
def check_quotas(facts: GateFacts) -> check_result.CheckResult:
    if isinstance(facts.quotas, Unavailable):
        return check_result.create_unknown(f"ResourceQuotas cannot be listed: {facts.quotas.reason}")
    if isinstance(facts.cap_limits, Unavailable):
        return check_result.create_unknown(f"what caps allow cannot be seen: {facts.cap_limits.reason}")
    unscoped = [quota for quota in facts.quotas if _is_unscoped(quota) and not is_compiled(quota)]
    results = [result for quota in unscoped for result in _compare_quota(facts, quota, facts.cap_limits)]
    return check_result.combine_results(
        results,
        check_result.create_pass(f"{len(facts.quotas)} ResourceQuotas, and none bounds what a cap bounds otherwise"),
    )


def _is_unscoped(quota: ResourceQuota) -> bool:
    """Return whether a quota has no scopes; with scopes it counts only some pods and cannot be compared."""
    return bool(quota.spec and not quota.spec.scopes and not quota.spec.scope_selector)


def _compare_quota(
    facts: GateFacts, quota: ResourceQuota, cap_limits: tuple[CapLimits, ...]
) -> Iterator[check_result.CheckResult]:
    namespace, name = _get_namespace_and_name(quota)
    hard = {counted: (key, amount) for key, counted, amount in _list_hard_limits(quota)}
    for limits in cap_limits:
        if limits.namespace != namespace:
            continue
        for counted, allowed in limits.hard.items():
            key, amount = hard.get(counted, ("", allowed))
            comparison = f"quota {name} of {namespace} allows {format_amount(counted, amount)} of {counted}, "
            comparison += f"cap {limits.cap} {format_amount(counted, allowed)}"
            if amount < allowed:
                reason = (
                    f"{comparison}: the cap never rejects a pod, and a pod that the quota rejects keeps its "
                    "reservation for 40 s and more"
                )
                yield check_result.create_warning(reason, _format_quota_patch(facts, namespace, name, key))
            elif amount > allowed and limits.counts_all_pods:
                yield check_result.create_warning(
                    f"{comparison}: the quota never rejects a pod", _format_quota_patch(facts, namespace, name, key)
                )


def _format_quota_patch(facts: GateFacts, namespace: str, name: str, key: str) -> str:
    operations = [{"op": "remove", "path": f"/spec/hard/{_escape_pointer(key)}"}]
    arguments = ("patch", "resourcequota", name, f"--namespace={namespace}", "--type=json")
    return check_result.format_kubectl(facts.location, *arguments, f"--patch={json.dumps(operations)}")


def _escape_pointer(text: str) -> str:
    """Escape text for a JSON pointer (RFC 6901)."""
    return text.replace("~", "~0").replace("/", "~1")


def _get_namespace_and_name(quota: ResourceQuota) -> tuple[str, str]:
    meta = quota.metadata
    return (meta.namespace or "", meta.name or "") if meta else ("", "")


def _list_hard_limits(quota: ResourceQuota) -> Iterator[tuple[str, str, int]]:
    """Yield each hard limit: the name as written, the name in a cap, and the amount."""
    for key, raw in ((quota.spec.hard if quota.spec else None) or {}).items():
        counted = key.removeprefix(REQUESTS_PREFIX)
        if key == "count/pods":
            counted = "pods"
        try:
            yield key, counted, round_down_to_unit(counted, Quantity.from_json(raw))
        except QuantityError:
            continue  # an API server stores no invalid quantity


@check_result.check(
    "backstop",
    "The objects that are compiled from the policies are as these are",
    "WARN: a compiled object is missing, other or surplus, or webhooks for pods have Ignore and no compiled object "
    "exists; UNKNOWN: compiled objects, namespaces or policies cannot be read",
)
def check_backstop(facts: GateFacts) -> check_result.CheckResult:
    applied = facts.compiled_objects
    if isinstance(applied, Unavailable):
        return check_result.create_unknown(f"compiled objects cannot be listed: {applied.reason}")
    opens = [webhook for _, configuration in facts.list_configurations() for webhook in configuration.webhooks]
    fails_open = any(is_called_for_pods(webhook) and webhook.failure_policy == _IGNORE for webhook in opens)
    if not (applied or fails_open):
        return check_result.create_pass("no object is compiled from the policies, and the webhooks fail closed")
    if isinstance(facts.policies, Unavailable) or isinstance(facts.namespaces, Unavailable):
        unknown = [facts.policies, facts.namespaces]
        reasons = [each.reason for each in unknown if isinstance(each, Unavailable)]
        return check_result.create_unknown(f"the objects to compile are unknown: {'; '.join(reasons)}")
    compiled = compile_policies(facts.policies, _observe_cluster(facts, facts.namespaces), facts.now).objects
    differences = compare_objects(compiled, applied)
    if not differences:
        return check_result.create_pass(f"{len(compiled)} compiled objects, and all are as the policies")
    commands = [_format_compilation(facts)] if any(not each.is_surplus for each in differences) else []
    commands += (_format_deletion(facts, difference) for difference in differences if difference.is_surplus)
    if not applied:
        reason = f"no object is compiled from the policies: {len(differences)} would enforce a part of them"
        return check_result.create_warning(f"the webhooks have failurePolicy Ignore, and {reason}", *commands)
    names = check_result.format_names(list(map(str, differences)))
    return check_result.create_warning(f"compiled objects differ from the policies: {names}", *commands)


def _observe_cluster(facts: GateFacts, namespaces: Iterable[LabelledNamespace]) -> ObservedCluster:
    excluded = [*ALWAYS_EXCLUDED, facts.location.namespace]
    if isinstance(facts.validating, WebhookConfiguration):
        excluded += list_excluded_names(facts.validating)
    return ObservedCluster(
        {namespace.name: namespace.labels for namespace in namespaces},
        None if isinstance(facts.device_classes, Unavailable) else facts.device_classes,
        frozenset(excluded),
    )


def _format_compilation(facts: GateFacts) -> str:
    command = check_result.format_tallygate(facts.location, "compile")
    return f"{command} | {check_result.format_kubectl(facts.location, 'apply', '--filename=-')}"


def _format_deletion(facts: GateFacts, difference: Difference) -> str:
    options = [f"--namespace={difference.namespace}"] if difference.namespace else []
    return check_result.format_kubectl(facts.location, "delete", difference.kind.lower(), difference.name, *options)


@check_result.check(
    "opaque-names",
    f"No node or pod still uses {OPAQUE_PREFIX}…",
    "WARN: nodes advertise such names, or pods request them",
)
def check_opaque_names(facts: GateFacts) -> check_result.CheckResult:
    if isinstance(facts.opaque_name_users, Unavailable):
        return check_result.create_unknown(f"nodes and pods cannot be listed: {facts.opaque_name_users.reason}")
    if not facts.opaque_name_users:
        return check_result.create_pass(f"nothing is called {OPAQUE_PREFIX}…")
    return check_result.combine_results(
        [user for kind in ("Node", "Pod") for user in _report_users(facts, kind, facts.opaque_name_users)],
        check_result.create_pass(""),
    )


def _report_users(facts: GateFacts, kind: str, users: tuple[OpaqueNameUser, ...]) -> Iterator[check_result.CheckResult]:
    users_of_kind = [user for user in users if user.kind == kind]
    if not users_of_kind:
        return
    counts_by_name = Counter(user.resource.removeprefix(OPAQUE_PREFIX) for user in users_of_kind)
    user_names = sorted({f"{user.namespace}/{user.name}" if user.namespace else user.name for user in users_of_kind})
    names_text = check_result.format_names([f"{name} ({count})" for name, count in sorted(counts_by_name.items())])
    one_verb, verb = ("advertises", "advertise") if kind == "Node" else ("requests", "request")
    noun = kind.lower()
    users_text = f"1 {noun} {one_verb}" if len(user_names) == 1 else f"{len(user_names)} {noun}s {verb}"
    reason = (
        f"{users_text} names that begin with {OPAQUE_PREFIX}, which Kubernetes no longer checks since 1.9: "
        f"{names_text}; {noun}s: {check_result.format_names(user_names)}; "
        "`tallygate audit` lists them with the new names"
    )
    # A name that pods request stays: without it, their successors would find no node.
    requested = {user.resource for user in users if user.kind == "Pod"}
    patched = [user for user in users_of_kind if kind == "Node" and user.resource not in requested]
    yield check_result.create_warning(reason, *(_format_node_patch(facts, user) for user in patched))


def _format_node_patch(facts: GateFacts, user: OpaqueNameUser) -> str:
    key = _escape_pointer(user.resource)
    operations = [{"op": "remove", "path": f"/status/{part}/{key}"} for part in ("capacity", "allocatable")]
    arguments = ("patch", "node", user.name, "--subresource=status", "--type=json")
    return check_result.format_kubectl(facts.location, *arguments, f"--patch={json.dumps(operations)}")


@check_result.check(
    "limit-annotations",
    "Annotations of namespaces that are to set limits do so, and a gate admitted them",
    "WARN: an annotation is not a list of amounts, gives more than its cap allows, is for no cap that reads it, or no "
    "gate has recorded that it admitted it; UNKNOWN: namespaces cannot be listed, or there are such annotations, "
    "and the policies or the gate's records cannot be read",
)
def check_limit_annotations(facts: GateFacts) -> check_result.CheckResult:
    if isinstance(facts.namespaces, Unavailable):
        return check_result.create_unknown(f"namespaces cannot be listed: {facts.namespaces.reason}")
    annotations = {namespace.name: namespace.limit_texts for namespace in facts.namespaces if namespace.limit_texts}
    if not annotations:
        return check_result.create_pass("no namespace has an annotation that sets limits")
    if isinstance(facts.policies, Unavailable):
        names = ", ".join(sorted(annotations))
        return check_result.create_unknown(
            f"the annotations of {names} cannot be read without policies: {facts.policies.reason}"
        )
    readers = {cap.name: cap for cap in facts.policies.caps if cap.annotation}
    results = [
        check_result.create_warning(str(annotation), _format_removal(facts, annotation))
        for annotation in _list_invalid(annotations, readers)
    ]
    results += _check_admission(facts, readers.values())
    count = sum(map(len, annotations.values()))
    passed = "1 annotation sets limits" if count == 1 else f"{count} annotations set limits"
    retried = "a controller whose pods were rejected before a raise tries again by its own back-off, up to 1,000 s"
    return check_result.combine_results(
        results, check_result.create_pass(f"{passed}, as caps allow and as a gate admitted; {retried}")
    )


def _check_admission(facts: GateFacts, readers: Iterable[NamespaceCap]) -> Iterator[check_result.CheckResult]:
    """Check that a gate admitted each annotation that sets limits."""
    namespaces = () if isinstance(facts.namespaces, Unavailable) else facts.namespaces
    annotations = {namespace.name: namespace.limit_texts for namespace in namespaces if namespace.limit_texts}
    uids = {namespace.name: namespace.uid for namespace in namespaces}
    for cap in readers:
        if not isinstance(facts.limit_records, Unavailable):
            for annotation in limit_annotations.find_unadmitted(cap, annotations, uids, facts.limit_records, facts.now):
                yield check_result.create_warning(str(annotation), _format_removal(facts, annotation))
        elif limit_annotations.read_overrides(cap, annotations):
            reason = facts.limit_records.reason
            yield check_result.create_unknown(f"the gate's records of admitted annotations cannot be read: {reason}")


def _list_invalid(
    annotations: limit_annotations.LimitAnnotations, readers: Mapping[str, NamespaceCap]
) -> Iterator[limit_annotations.InvalidAnnotation]:
    """Yield the annotations that set no limit: those that a cap cannot read, then those that no cap reads."""
    for cap in readers.values():
        yield from limit_annotations.find_invalid(cap, annotations)
    for namespace, texts in sorted(annotations.items()):
        for name in sorted(texts.keys() - readers.keys()):
            yield limit_annotations.InvalidAnnotation(namespace, name, limit_annotations.describe_unread(name, readers))


def _format_removal(
    facts: GateFacts, annotation: limit_annotations.InvalidAnnotation | limit_annotations.UnadmittedAnnotation
) -> str:
    key = f"{limit_annotations.ANNOTATION_PREFIX}{annotation.cap}"
    return check_result.format_kubectl(facts.location, "annotate", "namespace", annotation.namespace, f"{key}-")


@check_result.check(
    "devices",
    "Caps count the classes of devices that the cluster has",
    "WARN: a cap counts a class that does not exist, or counts devices for some priority classes or nodes only, or "
    "by attributes or capacities, and no ResourceSlice publishes a device; "
    "UNKNOWN: classes exist, and no policies were named, or the classes or needed ResourceSlices cannot be listed",
)
def check_devices(facts: GateFacts) -> check_result.CheckResult:
    classes = facts.device_classes
    if isinstance(classes, Unavailable):
        return check_result.create_unknown(f"the classes of devices cannot be listed: {classes.reason}")
    if isinstance(facts.policies, Unavailable):
        if not classes:
            return check_result.create_pass("the cluster has no classes of devices, so no claim counts by its class")
        return check_result.create_unknown(
            f"the classes of devices that caps count are unknown: {facts.policies.reason}; name the policy files by "
            "--policies"
        )
    caps = facts.policies.caps
    results = [result for cap in caps for result in _check_cap(facts, cap, classes)]
    results += _check_slices(facts, caps)
    counted = {name for cap in caps for name in _list_counted_classes(cap, classes)}
    uncounted = sorted(classes.keys() - counted)
    rest = f"; claims of these count under no cap: {check_result.format_names(uncounted)}" if uncounted else ""
    return check_result.combine_results(
        results, check_result.create_pass(f"classes of devices that caps count: {len(counted)}{rest}")
    )


def _check_slices(facts: GateFacts, caps: Iterable[NamespaceCap]) -> Iterator[check_result.CheckResult]:
    """Yield the result for caps that count devices by attributes or capacities, if no slice shows these."""
    by_allocation = (
        f"{cap.name} ({name})" for cap in caps for name, device in cap.devices.items() if device.is_by_allocation
    )
    names = check_result.format_names(sorted(by_allocation))
    if isinstance(facts.published_devices, Unavailable):
        yield check_result.create_unknown(
            f"the devices of these caps cannot be listed: {names}: {facts.published_devices.reason}"
        )
    elif facts.published_devices == 0:
        yield check_result.create_warning(
            f"no ResourceSlice publishes a device, so nothing is allocated under these caps: {names}",
            check_result.format_kubectl(facts.location, "get", "resourceslices"),
        )


def _check_cap(facts: GateFacts, cap: NamespaceCap, classes: Mapping[str, str]) -> Iterator[check_result.CheckResult]:
    """Yield a warning for the classes of a cap that do not exist, and for a filter that no claim passes."""
    counted = _list_counted_classes(cap, classes)
    if missing := sorted(counted - classes.keys()):
        yield check_result.create_warning(
            f"cap {cap.name} counts classes of devices that do not exist: {check_result.format_names(missing)}",
            check_result.format_kubectl(facts.location, "get", "deviceclasses"),
        )
    if counted and (cap.pods.priority_classes or cap.pods.node_selector):
        names = check_result.format_names(sorted(_find_sources(cap, classes)))
        yield check_result.create_warning(
            f"cap {cap.name} counts {names} for pods of some priority classes or nodes only, and a claim for devices "
            "has neither: it counts no claim"
        )


def _list_counted_classes(cap: NamespaceCap, classes: Mapping[str, str]) -> frozenset[str]:
    return frozenset().union(*_find_sources(cap, classes).values())


def _find_sources(cap: NamespaceCap, classes: Mapping[str, str]) -> Mapping[str, frozenset[str]]:
    """Return the classes that count under each name of a cap."""
    mapped = {name: device.classes for name, device in cap.devices.items()}
    sources = find_device_sources(cap.list_requested_names(), classes, mapped)
    return {name: source.classes for name, source in sources.items()}


_PHASES = {MUTATING: Phase.MUTATING, VALIDATING: Phase.VALIDATING}


@check_result.check(
    "workload-kinds",
    "Pod templates in objects of other projects are evaluated",
    "WARN: a kind that is known or defined by policies is served and not registered, or served in other versions "
    "than those that are read; UNKNOWN: the served kinds, the CustomResourceDefinitions or the policies cannot be "
    "read",
)
def check_workload_kinds(facts: GateFacts) -> check_result.CheckResult:
    if facts.registration_problem:
        return check_result.create_unknown(facts.registration_problem)
    results = [*_check_served(facts), *_check_definitions(facts), *_check_policies(facts)]
    return check_result.combine_results(results, check_result.create_pass(_format_served(facts)))


def _check_served(facts: GateFacts) -> Iterator[check_result.CheckResult]:
    """Yield the results for known kinds that are served, and not registered or not read."""
    served = facts.workloads.served
    if isinstance(served, Unavailable):
        yield check_result.create_unknown(f"the served kinds cannot be read: {served.reason}")
        return
    for found in served:
        if found.resource is None:
            yield check_result.create_warning(
                f"{found} is served in {', '.join(found.versions)}, and read in {', '.join(found.kind.versions)} only: "
                "pod templates in its objects are not evaluated"
            )
    for kind, configuration in facts.list_configurations():
        missing = [
            served_kind
            for served_kind in served
            if served_kind.resource and not _is_registered(configuration, served_kind)
        ]
        if missing:
            yield check_result.create_warning(
                f"{check_result.format_names([str(served_kind) for served_kind in missing])} "
                f"{'is' if len(missing) == 1 else 'are'} served and not registered in the {_PHASES[kind]} phase: "
                f"pod templates in such objects are not evaluated"
                f"{_format_discovery_failure(facts)}",
                *_list_fixes(
                    facts, kind, configuration, [served_kind.resource for served_kind in served if served_kind.resource]
                ),
            )


def _is_registered(configuration: WebhookConfiguration, served: ServedKind) -> bool:
    """Return whether creates and updates are sent in one of the served versions, and so in all of them."""
    return all(
        any(
            has_webhook_for(
                configuration,
                RequestKind(
                    served.kind.group,
                    served.kind.resource,
                    operation,
                    "Namespaced" if is_namespaced else "Cluster",
                    version,
                ),
            )
            for version, is_namespaced in served.versions.items()
        )
        for operation in (CREATE, UPDATE)
    )


def _format_discovery_failure(facts: GateFacts) -> str:
    """Return why the gate does not know what is served, by the readiness of the replica that leads."""
    replicas = () if isinstance(facts.replicas, Unavailable) else facts.replicas
    details = (replica.find_check("registration") or {} for replica in replicas)
    failures = [str(detail["discovery"]) for detail in details if detail.get("discovery")]
    return f": the gate cannot read what is served: {failures[0]}" if failures else ""


def _list_fixes(
    facts: GateFacts, kind: str, configuration: WebhookConfiguration, resources: Sequence[WorkloadResource]
) -> Iterator[str]:
    """Yield a command that adds the rules, or shows what the gate, which would add them, can read.

    A gate without access to the API server has no readiness check of its registration: it adds nothing.
    """
    location = facts.location
    replicas = () if isinstance(facts.replicas, Unavailable) else facts.replicas
    writes = not replicas or any(
        isinstance(replica.readiness, Unavailable) or replica.find_check("registration") is not None
        for replica in replicas
    )
    if is_left_to_gate(configuration) and writes:
        yield check_result.format_kubectl(location, "get", "--raw=/apis", location.impersonation)
        return
    phase = _PHASES[kind]
    name = get_workload_webhook_name(phase)
    expected = ExpectedConfigurations(location, workload_resources=resources)
    fields = {each: expected.get_field(kind, name, each) for each in ("matchConditions", "rules")}
    present = next((webhook for webhook in configuration.webhooks if webhook.name == name), None)
    if present is not None:
        for field, value in fields.items():
            yield check_result.format_webhook_patch(location, kind, configuration, present, field, value)
        return
    creations = next((webhook for webhook in configuration.webhooks if webhook.name == f"{phase}.tallygate.dev"), None)
    if creations is not None:
        yield check_result.format_webhook_copy(location, kind, configuration, creations, {"name": name, **fields})


def _check_definitions(facts: GateFacts) -> Iterator[check_result.CheckResult]:
    if isinstance(facts.workloads.unread, Unavailable):
        yield check_result.create_unknown(
            f"the CustomResourceDefinitions cannot be listed: {facts.workloads.unread.reason}"
        )


def _check_policies(facts: GateFacts) -> Iterator[check_result.CheckResult]:
    if not isinstance(facts.policies, Unavailable):
        return
    text = f"the kinds that policies define are unknown: {facts.policies.reason}; name the policy files by --policies"
    if names := _format_unread(facts):
        text += f"; not read, unless policies define them: {names}"
    yield check_result.create_unknown(text)


def _format_served(facts: GateFacts) -> str:
    served = () if isinstance(facts.workloads.served, Unavailable) else facts.workloads.served
    text = "no known kind of another project is served"
    if served:
        names = check_result.format_names([str(kind) for kind in served])
        text = f"the served kinds of other projects are registered: {names}"
    names = _format_unread(facts)
    return f"{text}; not read, so that their pods are evaluated only when they are created: {names}" if names else text


def _format_unread(facts: GateFacts) -> str:
    unread = () if isinstance(facts.workloads.unread, Unavailable) else facts.workloads.unread
    return check_result.format_names(
        [f"{unread_kind.kind} of {unread_kind.group} ({unread_kind.field})" for unread_kind in unread]
    )


_ENTRY = "node-resources"


@check_result.check(
    "node-resources",
    "The amounts that policies publish on nodes are there",
    "WARN: two policies, a device plugin or another client prevent an amount, pods use more than a policy leaves, "
    "or no replica publishes while a policy defines amounts; UNKNOWN: no replica can be reached, or none of those "
    "that publish leads",
)
def check_node_resources(facts: GateFacts) -> check_result.CheckResult:
    policies = facts.policies
    if isinstance(facts.replicas, Unavailable):
        if isinstance(policies, Unavailable) or policies.node_resources:
            return check_result.create_unknown(facts.replicas.reason)
        return check_result.create_pass("no policy publishes amounts on nodes")
    entries = [entry for replica in facts.replicas if (entry := replica.find_check(_ENTRY)) is not None]
    if not entries:
        return _check_disabled(facts)
    results = [result for entry in entries for result in _check_entry(facts, entry)]
    leads = any(entry.get("leader") for entry in entries)
    return check_result.combine_results(
        results,
        check_result.create_pass("all amounts are published as policies define them")
        if leads
        else check_result.create_unknown("no replica that publishes amounts leads"),
    )


def _check_disabled(facts: GateFacts) -> check_result.CheckResult:
    """Return the result for replicas that publish nothing."""
    names = (
        [] if isinstance(facts.policies, Unavailable) else [resource.name for resource in facts.policies.node_resources]
    )
    if names and facts.replicas:
        return check_result.create_warning(
            f"no replica publishes amounts on nodes (publish_nodes is off), and these policies define some: "
            f"{check_result.format_names(names)}; add the component publish-nodes, or publishNodes.enabled of the chart"
        )
    return check_result.create_pass("no replica publishes amounts on nodes")


def _check_entry(facts: GateFacts, entry: object) -> Iterator[check_result.CheckResult]:
    """Yield the problems of a replica, and the amounts that stay since pods use them."""
    details = entry if isinstance(entry, dict) else {}
    for key in ("problems", "retained"):
        texts = details.get(key)
        if isinstance(texts, list) and texts:
            command = check_result.format_kubectl(facts.location, "get", "nodes", "-o", "yaml", "--show-managed-fields")
            yield check_result.create_warning(check_result.format_names([str(text) for text in texts]), command)
