"""Cases around the gate: its permissions, the quotas of namespaces, and opaque resource names."""

from tallygate.backstop.compilation import compile_policies
from tallygate.backstop.compiled_objects import CompiledObject
from tallygate.backstop.resource_quotas import ObservedCluster
from tallygate.cli.doctor.api_types import LabelledNamespace
from tallygate.cli.doctor.facts import OpaqueNameUser
from tallygate.policy.model import PolicySet
from tests.admission.case import parse_policies
from tests.cli.doctor.fact_changes import (
    FAIL,
    UNAVAILABLE,
    UNKNOWN,
    WARN,
    Cases,
    change_first_replica,
    change_webhook,
    create_cap_limits,
    exclude_permissions,
    quota,
)
from tests.cli.doctor.healthy_gate import NOW, list_namespaces, with_check


def parse_caps(hard: str = "{nvidia.com/gpu: 4}", **spec: str) -> PolicySet:
    """Return the cap with this limit and other fields of its spec."""
    fields = "".join(f"  {name}: {text}\n" for name, text in spec.items())
    head = "apiVersion: tallygate.dev/v1alpha1\nkind: NamespaceCap\nmetadata: {name: gpus}\nspec:\n"
    namespaces = "" if "namespaces" in spec else "  namespaces: {include: [team-a]}\n"
    return parse_policies(f"{head}{namespaces}  hard: {hard}\n{fields}")


def compile_caps(gpus: str, *namespaces: str) -> tuple[CompiledObject, ...]:
    """Return the objects of a cap with this limit, in team-a and further namespaces, as they are stored."""
    names = {name: dict[str, str]() for name in ("team-a", *namespaces)}
    policies = parse_caps(f"{{nvidia.com/gpu: {gpus}}}", namespaces=f"{{include: [{', '.join(names)}]}}")
    return tuple(compile_policies(policies, ObservedCluster(names), NOW).objects)


PUBLISHED = parse_policies(
    "apiVersion: tallygate.dev/v1alpha1\nkind: NodeResource\nmetadata: {name: seats}\n"
    "spec: {resources: {example.com/seat: 4}}\n"
)
BY_ALLOCATION = parse_caps(hard="{h100: 4}", devices="{h100: {selector: 'true'}}")
ANNOTATED = parse_caps(
    overrideAnnotation="{setBy: {groups: [admins]}, most: {nvidia.com/gpu: 8}}",
)


def annotate(text: str) -> tuple[LabelledNamespace, ...]:
    """Return the usual namespaces, with an annotation of team-a that is to set limits of the cap."""
    texts = {"team-a": {"gpus": text}}
    return tuple(
        LabelledNamespace(each.name, each.labels, texts.get(each.name, {}), f"uid-{each.name}")
        for each in list_namespaces()
    )


CASES: Cases = {
    "a permission is missing": (
        {"permissions": exclude_permissions("delete leases.coordination.k8s.io")},
        {"permissions": FAIL},
    ),
    "a permission is missing that may not be needed": (
        {
            "permissions": exclude_permissions("delete leases.coordination.k8s.io"),
            "deployment": UNAVAILABLE,
            "replicas": UNAVAILABLE,
        },
        {
            "permissions": WARN,
            "failure-policy": UNKNOWN,
            "callers": UNKNOWN,
            "replicas": UNKNOWN,
            "policies": UNKNOWN,
            "watches": UNKNOWN,
            "ledgers": UNKNOWN,
        },
    ),
    "permissions cannot be read": ({"permissions": UNAVAILABLE}, {"permissions": UNKNOWN}),
    "a quota below a cap": (
        {"quotas": (quota({"requests.nvidia.com/gpu": "2"}),), "cap_limits": create_cap_limits()},
        {"quotas": WARN},
    ),
    "a quota above a cap": (
        {"quotas": (quota({"limits.cpu": "3"}),), "cap_limits": create_cap_limits()},
        {"quotas": WARN},
    ),
    "a compiled quota is missing, other or surplus": (
        {"compiled_objects": (*compile_caps("3"), *compile_caps("4", "team-z")), "policies": parse_caps()},
        {"backstop": WARN},
    ),
    "webhooks that fail open without compiled objects": (
        {**change_webhook("validate", "validate.tallygate.dev", failurePolicy="Ignore"), "policies": parse_caps()},
        {"failure-policy": WARN, "backstop": WARN},
    ),
    "compiled objects cannot be listed": ({"compiled_objects": UNAVAILABLE}, {"backstop": UNKNOWN}),
    "compiled objects of unknown policies": (
        {"compiled_objects": compile_caps("4"), "policies": UNAVAILABLE},
        {"backstop": UNKNOWN, "workload-kinds": UNKNOWN},
    ),
    "quotas cannot be listed": ({"quotas": UNAVAILABLE}, {"quotas": UNKNOWN}),
    "caps are unknown": ({"cap_limits": UNAVAILABLE}, {"quotas": UNKNOWN}),
    "a node advertises an opaque name": (
        {"opaque_name_users": (OpaqueNameUser("Node", "", "n1", "pod.alpha.kubernetes.io/opaque-int-resource-x"),)},
        {"opaque-names": WARN},
    ),
    "a pod requests an opaque name": (
        {"opaque_name_users": (OpaqueNameUser("Pod", "team-a", "p", "pod.alpha.kubernetes.io/opaque-int-resource-x"),)},
        {"opaque-names": WARN},
    ),
    "nodes and pods cannot be listed": ({"opaque_name_users": UNAVAILABLE}, {"opaque-names": UNKNOWN}),
    "a cap counts a class of devices that does not exist": (
        {
            "device_classes": {"gpu": "nvidia.com/gpu"},
            "policies": parse_caps(hard="{old.deviceclass.resource.k8s.io/devices: 4}"),
        },
        {"devices": WARN},
    ),
    "a cap maps a class of devices that does not exist": (
        {"policies": parse_caps(devices="{nvidia.com/gpu: {classes: [gpu]}}")},
        {"devices": WARN},
    ),
    "a cap counts devices for some priority classes only": (
        {"device_classes": {"gpu": "nvidia.com/gpu"}, "policies": parse_caps(pods="{priorityClasses: [high]}")},
        {"devices": WARN},
    ),
    "classes of devices exist, and no policies are known": (
        {"device_classes": {"gpu": "nvidia.com/gpu"}, "policies": UNAVAILABLE},
        {"devices": UNKNOWN, "workload-kinds": UNKNOWN},
    ),
    "a policy defines amounts, and no replica publishes them": ({"policies": PUBLISHED}, {"node-resources": WARN}),
    "a device plugin prevents an amount": (
        change_first_replica(
            readiness=with_check("node-resources", ready=True, leader=True, problems=["node n: x: a plugin"])
        ),
        {"node-resources": WARN},
    ),
    "pods use more than a policy leaves": (
        change_first_replica(
            readiness=with_check("node-resources", ready=True, leader=True, retained=["node n: x: 3 stay"])
        ),
        {"node-resources": WARN},
    ),
    "no replica that publishes leads": (
        change_first_replica(readiness=with_check("node-resources", ready=True, leader=False)),
        {"node-resources": UNKNOWN},
    ),
    "a policy defines amounts, and the replicas cannot be reached": (
        {"policies": PUBLISHED, "replicas": UNAVAILABLE},
        {"node-resources": UNKNOWN, "replicas": UNKNOWN, "policies": UNKNOWN, "watches": UNKNOWN, "ledgers": UNKNOWN},
    ),
    "an annotation is not a list of amounts": (
        {"policies": ANNOTATED, "namespaces": annotate("many GPUs")},
        {"limit-annotations": WARN},
    ),
    "an annotation gives more than its cap allows": (
        {"policies": ANNOTATED, "namespaces": annotate("nvidia.com/gpu=9")},
        {"limit-annotations": WARN},
    ),
    "an annotation is for no cap that reads it": (
        {"policies": parse_caps(), "namespaces": annotate("nvidia.com/gpu=8")},
        {"limit-annotations": WARN},
    ),
    "an annotation that a gate admitted": (
        {
            "policies": ANNOTATED,
            "namespaces": annotate("nvidia.com/gpu=8"),
            "limit_records": {"uid-team-a": {"gpus": "nvidia.com/gpu=8"}},
        },
        {},
    ),
    "an annotation that no gate admitted": (
        {"policies": ANNOTATED, "namespaces": annotate("nvidia.com/gpu=8"), "limit_records": {}},
        {"limit-annotations": WARN},
    ),
    "an annotation that was changed since a gate admitted it": (
        {
            "policies": ANNOTATED,
            "namespaces": annotate("nvidia.com/gpu=8"),
            "limit_records": {"uid-team-a": {"gpus": "nvidia.com/gpu=7"}},
        },
        {"limit-annotations": WARN},
    ),
    "an annotation that a gate admitted for an earlier namespace of the name": (
        {
            "policies": ANNOTATED,
            "namespaces": annotate("nvidia.com/gpu=8"),
            "limit_records": {"uid-of-before": {"gpus": "nvidia.com/gpu=8"}},
        },
        {"limit-annotations": WARN},
    ),
    "an annotation that no gate admitted has ended": (
        {"policies": ANNOTATED, "namespaces": annotate("nvidia.com/gpu=8 until=2020-01-01"), "limit_records": {}},
        {},
    ),
    "an annotation is there, and the records of the gate cannot be read": (
        {"policies": ANNOTATED, "namespaces": annotate("nvidia.com/gpu=8"), "limit_records": UNAVAILABLE},
        {"limit-annotations": UNKNOWN},
    ),
    "an annotation is there, and no policies are known": (
        {"policies": UNAVAILABLE, "namespaces": annotate("nvidia.com/gpu=8")},
        {"limit-annotations": UNKNOWN, "workload-kinds": UNKNOWN},
    ),
    "classes of devices cannot be listed": ({"device_classes": UNAVAILABLE}, {"devices": UNKNOWN}),
    "the gate may not list slices of devices": (
        {"permissions": exclude_permissions("list resourceslices.resource.k8s.io")},
        {"permissions": FAIL},
    ),
    "slices of devices cannot be listed": (
        {"published_devices": UNAVAILABLE, "policies": BY_ALLOCATION},
        {"devices": UNKNOWN},
    ),
    "a cap counts attributes of devices, and none is published": (
        {"published_devices": 0, "policies": BY_ALLOCATION},
        {"devices": WARN},
    ),
}
