"""The document of a scenario: its fields with their defaults and descriptions, from which its schema is generated."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tallygate.accounting.quantity import Quantity
from tallygate.policy.shape_definitions import ShapeTaint
from tallygate.policy.written import Written

DEVELOPER = "developer"
"""The user of a step that names none."""

ACTIONS = ("create", "update", "resize", "scale", "delete", "finish", "fail", "label", "annotate", "allocate", "wait")
"""The fields of a step, of which one is given."""

_Name = Annotated[str, Meta(max_length=253, extra_json_schema={"format": "object-name"})]
_Count = Annotated[int, Meta(extra_json_schema={"format": "count"})]
_Text = Annotated[str, Meta(title="Text", max_length=1000)]
_LABEL_KEYS = {"propertyNames": {"format": "label-key"}}
_LabelValue = Annotated[str, Meta(title="Value", extra_json_schema={"format": "label-value"})]
_Labels = Annotated[
    Mapping[str, Annotated[_LabelValue, Meta(description="A label's value.", examples=["vision"])]],
    Meta(max_length=100, examples=[{"team": "vision"}], extra_json_schema=_LABEL_KEYS),
]
_AnnotationText = Annotated[str, Meta(title="Value", description="The text of an annotation.", max_length=4096)]
_Amounts = Annotated[
    Mapping[
        str,
        Annotated[
            int | str,
            Meta(
                title="Quantity",
                description="The requested amount, sent as written, valid or not.",
                examples=[1, "1500m"],
                extra_json_schema={"maxLength": 100},
            ),
        ],
    ],
    Meta(max_length=100),
]
_Quantities = Annotated[
    Mapping[
        str,
        Annotated[
            Quantity,
            Meta(
                title="Quantity",
                description="A Kubernetes quantity, read exactly.",
                examples=[8, "64Gi"],
                extra_json_schema={"type": ["number", "string"], "format": "quantity"},
            ),
        ],
    ],
    Meta(max_length=100),
]


class ResizeStep(Written, frozen=True):
    """A resize of a pod."""

    pod: Annotated[_Name, Meta(examples=["trainer"])]
    """The pod's name."""
    container: Annotated[str, Meta(max_length=253, examples=["main"])] = ""
    """The name of the container; left out: the first."""
    resources: Annotated[_Amounts, Meta(examples=[{"nvidia.com/gpu": 2}])] = msgspec.field(default_factory=dict)
    """Both requests and limits of the first container; left out: none."""
    requests: Annotated[_Amounts, Meta(examples=[{"cpu": "500m"}])] = msgspec.field(default_factory=dict)
    """Requests of the first container, besides `resources`; left out: none."""
    limits: Annotated[_Amounts, Meta(examples=[{"memory": "8Gi"}])] = msgspec.field(default_factory=dict)
    """Limits of the first container, besides `resources`; left out: none."""


class ScaleStep(Written, frozen=True, kw_only=True):
    """A change of the number of replicas."""

    deployment: Annotated[_Name | None, Meta(examples=["trainer"])] = None
    """The name of a Deployment; left out where something else is named."""
    statefulset: Annotated[_Name | None, Meta(title="StatefulSet", examples=["trainer"])] = None
    """The name of a StatefulSet; left out where something else is named."""
    replicaset: Annotated[_Name | None, Meta(title="ReplicaSet", examples=["trainer"])] = None
    """The name of a ReplicaSet; left out where something else is named."""
    replicas: Annotated[_Count, Meta(examples=[4])]
    """The wanted number of pods."""


class DeleteStep(Written, frozen=True):
    """A deletion of an object."""

    pod: Annotated[_Name | None, Meta(examples=["trainer"])] = None
    """The name of a Pod; left out where something else is named."""
    deployment: Annotated[_Name | None, Meta(examples=["trainer"])] = None
    """The name of a Deployment; left out where something else is named."""
    statefulset: Annotated[_Name | None, Meta(title="StatefulSet", examples=["trainer"])] = None
    """The name of a StatefulSet; left out where something else is named."""
    job: Annotated[_Name | None, Meta(examples=["trainer"])] = None
    """The name of a Job; left out where something else is named."""
    daemonset: Annotated[_Name | None, Meta(title="DaemonSet", examples=["trainer"])] = None
    """The name of a DaemonSet; left out where something else is named."""
    replicaset: Annotated[_Name | None, Meta(title="ReplicaSet", examples=["trainer"])] = None
    """The name of a ReplicaSet; left out where something else is named."""
    resourceclaim: Annotated[_Name | None, Meta(title="ResourceClaim", examples=["two-gpus"])] = None
    """The name of a ResourceClaim; left out where something else is named."""
    resourceclaimtemplate: Annotated[_Name | None, Meta(title="ResourceClaimTemplate", examples=["two-gpus"])] = None
    """The name of a ResourceClaimTemplate; left out where something else is named."""
    deviceclass: Annotated[_Name | None, Meta(title="DeviceClass", examples=["gpu.example.com"])] = None
    """The name of a DeviceClass; left out where something else is named."""
    resourceslice: Annotated[_Name | None, Meta(title="ResourceSlice", examples=["node-1-gpus"])] = None
    """The name of a ResourceSlice; left out where something else is named."""
    devicetaintrule: Annotated[_Name | None, Meta(title="DeviceTaintRule", examples=["gpu-maintenance"])] = None
    """The name of a DeviceTaintRule; left out where something else is named."""
    object: Annotated[str, Meta(max_length=400, examples=["GangJob/small"])] = ""
    """The kind and the name of an object of another project, or of a kind that a WorkloadKind defines; left out where
    something else is named."""


class PodEnd(Written, frozen=True):
    """The end of a pod."""

    pod: Annotated[_Name, Meta(examples=["trainer"])]
    """The pod's name."""


class LabelStep(Written, frozen=True, kw_only=True):
    """A change of labels; None removes one."""

    pod: Annotated[_Name | None, Meta(examples=["trainer"])] = None
    """The pod's name; left out for a namespace or node."""
    namespace: Annotated[_Name | None, Meta(examples=["team-a"])] = None
    """The namespace's name; left out for a pod or node."""
    node: Annotated[_Name | None, Meta(examples=["a100-1"])] = None
    """The node's name; left out for a pod or namespace."""
    labels: Annotated[
        Mapping[
            str,
            Annotated[
                str | None,
                Meta(
                    title="Value",
                    description="The new value; null removes the label.",
                    examples=["vision"],
                    extra_json_schema={"format": "label-value", "written": {"type": ["string", "null"]}},
                ),
            ],
        ],
        Meta(max_length=100, examples=[{"team": "vision"}], extra_json_schema=_LABEL_KEYS),
    ]
    """The changes: key to new value; null removes a label."""


class AnnotateStep(Written, frozen=True, kw_only=True):
    """A change of annotations; None removes one."""

    namespace: Annotated[_Name | None, Meta(examples=["team-a"])] = None
    """The namespace's name; left out for a node."""
    node: Annotated[_Name | None, Meta(examples=["a100-1"])] = None
    """The node's name; left out for a namespace."""
    annotations: Annotated[
        Mapping[
            str,
            Annotated[
                str | None,
                Meta(
                    title="Value",
                    description="The new value; null removes the annotation.",
                    examples=["nvidia.com/gpu=12"],
                    extra_json_schema={"maxLength": 4096, "written": {"type": ["string", "null"]}},
                ),
            ],
        ],
        Meta(
            max_length=100,
            examples=[{"limits.tallygate.dev/gpus": "nvidia.com/gpu=12 until=2026-12-04T18:00:00Z"}],
            extra_json_schema=_LABEL_KEYS,
        ),
    ]
    """The changes: key to new value; null removes an annotation."""


class AllocateStep(Written, frozen=True):
    """An allocation of devices to a claim."""

    resourceclaim: Annotated[_Name, Meta(title="ResourceClaim", examples=["two-gpus"])]
    """The claim's name."""
    devices: Annotated[
        Mapping[str, Annotated[_Count, Meta(title="Count", description="A number of devices.", examples=[2])]],
        Meta(max_length=32, examples=[{"gpus": 2}]),
    ]
    """The number of devices by the name of their request, REQUEST/ALTERNATIVE for one of several."""
    names: Annotated[
        tuple[
            Annotated[
                str,
                Meta(
                    title="Device",
                    description="A device as DRIVER/POOL/DEVICE.",
                    max_length=1000,
                    examples=["gpu.example.com/node-1/gpu-0"],
                ),
            ],
            ...,
        ],
        Meta(min_length=1, max_length=100, examples=[["gpu.example.com/node-1/gpu-0", "gpu.example.com/node-1/gpu-1"]]),
    ] = ()
    """The devices of ResourceSlices, request by request, for caps that count devices by attributes and capacities; left
    out: devices that no ResourceSlice publishes."""


StepChange = ResizeStep | ScaleStep | DeleteStep | PodEnd | LabelStep | AnnotateStep | AllocateStep
"""A change of a stored object."""


class StepUser(Written, frozen=True):
    """The user of a step."""

    user: Annotated[str, Meta(max_length=253, examples=["jane"])]
    """The user's name."""
    groups: Annotated[
        tuple[Annotated[_Text, Meta(description="Groups of the user, besides system.", examples=["gpu-admins"])], ...],
        Meta(max_length=100, examples=[["gpu-admins"]]),
    ] = ()
    """Groups of the user, besides system:authenticated; left out: none."""


class ManifestMetadata(Written, frozen=True, forbid_unknown_fields=False):
    """The identity of an object."""

    name: Annotated[str | None, Meta(examples=["trainer"], extra_json_schema={"maxLength": 253})] = None
    """Its name; left out where generateName is given."""
    generate_name: Annotated[
        str | None, Meta(title="Name to generate", examples=["trainer-"], extra_json_schema={"maxLength": 253})
    ] = None
    """The prefix of a generated name; left out where the object has a name."""
    namespace: Annotated[str | None, Meta(examples=["team-a"], extra_json_schema={"maxLength": 253})] = None
    """Its namespace; left out: the step's."""


class ManifestHead(Written, frozen=True, forbid_unknown_fields=False):
    """The head of an object that a step sends as it is written."""

    api_version: Annotated[str, Meta(title="API version", max_length=253, examples=["v1", "apps/v1"])]
    """The object's API."""
    kind: Annotated[str, Meta(max_length=253, examples=["Pod"])]
    """The kind of the object."""
    metadata: Annotated[ManifestMetadata | None, Meta(examples=[{"name": "trainer"}])] = None
    """Its name and labels, and its namespace if it differs from that of the step; left out: none."""


class StepObject(Written, frozen=True):
    """An object that a step sends."""

    pod: Annotated[_Name | None, Meta(examples=["trainer"])] = None
    """The name of a Pod; left out where something else is named."""
    deployment: Annotated[_Name | None, Meta(examples=["trainer"])] = None
    """The name of a Deployment; left out where something else is named."""
    statefulset: Annotated[_Name | None, Meta(title="StatefulSet", examples=["trainer"])] = None
    """The name of a StatefulSet; left out where something else is named."""
    job: Annotated[_Name | None, Meta(examples=["trainer"])] = None
    """The name of a Job; left out where something else is named."""
    replicas: Annotated[_Count | None, Meta(examples=[3])] = None
    """The number of pods of a Deployment or StatefulSet, or of parallel pods of a Job; left out: one."""
    resources: Annotated[_Amounts, Meta(examples=[{"nvidia.com/gpu": 2}])] = msgspec.field(default_factory=dict)
    """Both requests and limits of the first container; left out: none."""
    requests: Annotated[_Amounts, Meta(examples=[{"cpu": "500m"}])] = msgspec.field(default_factory=dict)
    """Requests of the first container, besides `resources`; left out: none."""
    limits: Annotated[_Amounts, Meta(examples=[{"memory": "8Gi"}])] = msgspec.field(default_factory=dict)
    """Limits of the first container, besides `resources`; left out: none."""
    labels: _Labels = msgspec.field(default_factory=dict)
    """Labels of the pod, or of a workload's template; left out: none."""
    priority_class: Annotated[_Name | None, Meta(examples=["batch"])] = None
    """The pod's priority class; left out: none."""
    node_selector: Annotated[_Labels, Meta(examples=[{"gpu": "a100"}])] = msgspec.field(default_factory=dict)
    """Labels of the nodes that the pod may run on; left out: any."""
    manifest: Annotated[
        ManifestHead | None,
        Meta(
            examples=[
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": "trainer"},
                    "spec": {"containers": [{"name": "main"}]},
                }
            ]
        ),
    ] = None
    """The whole object, as kubectl would send it; left out where the object is given in another way."""
    file: Annotated[
        str | None, Meta(examples=["pods/trainer.yaml"], extra_json_schema={"maxLength": 1000, "format": "path"})
    ] = None
    """The path of a manifest of one object, relative to this file; left out where the object is given in another
    way."""


class PodCounts(Written, frozen=True):
    """The expected numbers of pods."""

    created: Annotated[_Count | None, Meta(examples=[3])] = None
    """The number of pods that controllers created in this step; left out: any number."""
    missing: Annotated[_Count | None, Meta(examples=[1])] = None
    """The number of pods that workloads still lack, because they were rejected; left out: any number."""


AMOUNT_KINDS = ("used", "reserved", "free")
"""The fields of an expected ledger with amounts."""


class ExpectedLedger(Written, frozen=True):
    """The expected amounts of a ledger."""

    cap: Annotated[str, Meta(max_length=253, examples=["gpus-vision"], extra_json_schema={"format": "policy-name"})]
    """The cap's name."""
    namespace: Annotated[_Name | None, Meta(examples=["team-a"])] = None
    """The namespace of the ledger; left out: that of the step. A shared cap has one ledger for all its namespaces, and
    a cap with groupBy one for the group of this namespace."""
    used: Annotated[_Quantities, Meta(examples=[{"nvidia.com/gpu": 6}])] | None = None
    """The amounts of the counted pods, by resource; left out: any."""
    reserved: Annotated[_Quantities, Meta(examples=[{"nvidia.com/gpu": 2}])] | None = None
    """The amounts of admitted pods that are not counted yet, by resource; left out: any."""
    free: Annotated[_Quantities, Meta(examples=[{"nvidia.com/gpu": 0}])] | None = None
    """The amounts of hard that are neither used nor reserved, by resource; left out: any."""


class ExpectedNode(Written, frozen=True):
    """The expected amounts of a node."""

    published: Annotated[_Quantities, Meta(examples=[{"example.com/ip": 61}])] = msgspec.field(default_factory=dict)
    """The amounts that NodeResources publish on the node, by resource; 0 for none; left out: any."""
    problems: (
        Annotated[
            Mapping[str, Annotated[_Text, Meta(description="A part of the problem.", examples=["keep one"])]],
            Meta(max_length=100, examples=[{"example.com/ip": "keep one"}]),
        ]
        | None
    ) = None
    """Parts of the problems of resources that are left as they are on the node: all of them; {} expects none; left out:
    any."""


class ScenarioVerdict(StrEnum):
    """The final answer of the API server."""

    ALLOWED = "allowed"
    DENIED = "denied"
    RETRY = "retry"


class StepExpectation(Written, frozen=True):
    """The expected result of a step."""

    verdict: Annotated[ScenarioVerdict, Meta(examples=["denied"])] = ScenarioVerdict.ALLOWED
    """What the API server answers in the end: allowed, denied, or retry: the gate has no decision yet, and a retry is
    correct."""
    codes: (
        Annotated[
            tuple[Annotated[_Text, Meta(description="Codes of the denial.", examples=["TG201"])], ...],
            Meta(max_length=100, examples=[["TG201"]]),
        ]
        | None
    ) = None
    """Codes of the denial: all of them, in any order; left out: any."""
    message: Annotated[str | None, Meta(examples=["free 2"], extra_json_schema={"maxLength": 1000})] = None
    """A part of the message of the denial; left out: any message."""
    warnings: (
        Annotated[
            tuple[Annotated[_Text, Meta(description="Parts of warnings.", examples=["soft 6"])], ...],
            Meta(max_length=100, examples=[["soft 6"]]),
        ]
        | None
    ) = None
    """Parts of warnings: each must be in a warning, and an empty list expects no warning; left out: any."""
    filled: (
        Annotated[
            Mapping[
                str,
                Annotated[
                    int | str,
                    Meta(
                        title="Value",
                        description="The value after the step.",
                        examples=[1],
                        extra_json_schema={"format": "quantity"},
                    ),
                ],
            ],
            Meta(
                title="Filled in", max_length=100, examples=[{"spec.containers[0].resources.limits[nvidia.com/gpu]": 1}]
            ),
        ]
        | None
    ) = None
    """The fields that the gate fills in, with their values: all of them; {} expects none; left out: any."""
    pods: Annotated[PodCounts, Meta(examples=[{"created": 3, "missing": 1}])] = PodCounts()
    """The pods of workloads after this step; left out: any."""
    ledgers: Annotated[
        tuple[
            Annotated[
                ExpectedLedger,
                Meta(
                    title="Ledger",
                    description="One ledger: only the given resources are compared.",
                    examples=[{"cap": "gpus-vision", "used": {"nvidia.com/gpu": 6}, "free": {"nvidia.com/gpu": 2}}],
                ),
            ],
            ...,
        ],
        Meta(title="Ledgers", max_length=100, examples=[[{"cap": "gpus-vision", "free": {"nvidia.com/gpu": 2}}]]),
    ] = msgspec.field(default=(), name="ledger")
    """Ledgers of caps after the step; left out: any."""
    nodes: Annotated[
        Mapping[
            str,
            Annotated[
                ExpectedNode,
                Meta(
                    title="Node",
                    description="One node: only the given resources are compared.",
                    examples=[{"published": {"example.com/ip": 61}, "problems": {}}],
                ),
            ],
        ],
        Meta(
            max_length=100,
            examples=[{"n1": {"published": {"example.com/ip": 61}}}],
            extra_json_schema={"propertyNames": {"format": "object-name"}},
        ),
    ] = msgspec.field(default_factory=dict)
    """Nodes after the step, by name; left out: any."""


class Step(Written, frozen=True):
    """One action and its expected result."""

    create: Annotated[
        StepObject | None, Meta(title="Object", examples=[{"pod": "trainer", "resources": {"nvidia.com/gpu": 2}}])
    ] = None
    """The user creates an object, which passes both webhooks and the validation of Kubernetes. The controllers of a
    workload then create its pods; left out in any other step."""
    update: Annotated[
        StepObject | None,
        Meta(title="Object", examples=[{"deployment": "trainer", "replicas": 4, "resources": {"nvidia.com/gpu": 1}}]),
    ] = None
    """The user replaces a stored object by this one; left out in any other step."""
    resize: Annotated[ResizeStep | None, Meta(examples=[{"pod": "trainer", "resources": {"cpu": 4}}])] = None
    """The user resizes a running pod: only the given amounts change; left out in any other step."""
    scale: Annotated[ScaleStep | None, Meta(examples=[{"deployment": "trainer", "replicas": 4}])] = None
    """The user scales a workload, as `kubectl scale` does; left out in any other step."""
    delete: Annotated[DeleteStep | None, Meta(examples=[{"pod": "trainer"}])] = None
    """The user deletes an object; the pods of a workload are deleted with it; left out in any other step."""
    finish: Annotated[PodEnd | None, Meta(examples=[{"pod": "trainer"}])] = None
    """A pod ends with phase Succeeded, and is no longer charged; left out in any other step."""
    fail: Annotated[PodEnd | None, Meta(examples=[{"pod": "trainer"}])] = None
    """A pod ends with phase Failed, and is no longer charged; left out in any other step."""
    label: Annotated[LabelStep | None, Meta(examples=[{"namespace": "team-a", "labels": {"team": "vision"}}])] = None
    """The user labels a pod, a namespace or a node; left out in any other step."""
    annotate: Annotated[
        AnnotateStep | None,
        Meta(examples=[{"namespace": "team-a", "annotations": {"limits.tallygate.dev/gpus": "nvidia.com/gpu=12"}}]),
    ] = None
    """The user annotates a namespace, as for a cap with overrideAnnotation, or a node; left out in any other step."""
    allocate: Annotated[AllocateStep | None, Meta(examples=[{"resourceclaim": "two-gpus", "devices": {"gpus": 2}}])] = (
        None
    )
    """kube-scheduler allocates devices to a claim; left out in any other step."""
    wait: Annotated[
        str | None, Meta(examples=["10s", "2m"], extra_json_schema={"maxLength": 64, "format": "duration"})
    ] = None
    """Time passes: ledgers are recounted, reservations become used amounts or expire, and controllers retry; left out
    in any other step."""
    namespace: Annotated[_Name | None, Meta(examples=["team-a"])] = None
    """The namespace of the action; left out: the first namespace of the scenario."""
    user: Annotated[StepUser, Meta(examples=[{"user": "jane", "groups": ["gpu-admins"]}])] = msgspec.field(
        default=StepUser(DEVELOPER), name="as"
    )
    """The user of the action; left out: the user developer in the group system:authenticated."""
    dry_run: Annotated[bool, Meta(examples=[True])] = False
    """Whether the request is a dry run (`kubectl --dry-run=server`): everything is evaluated, nothing is stored or
    reserved."""
    expect: Annotated[
        StepExpectation,
        Meta(title="Expectation", examples=[{"verdict": "denied", "codes": ["TG201"], "message": "free 2"}]),
    ] = StepExpectation()
    """The expected result of the step. Fields that are left out are not compared, except for the verdict."""


class ScenarioNode(Written, frozen=True):
    """A node of a scenario."""

    labels: _Labels = msgspec.field(default_factory=dict)
    """Labels by key; left out: none."""
    annotations: Annotated[
        Mapping[str, Annotated[_AnnotationText, Meta(examples=["25"])]],
        Meta(max_length=100, examples=[{"net.example.com/gbit": "25"}], extra_json_schema=_LABEL_KEYS),
    ] = msgspec.field(default_factory=dict)
    """Annotations by key; left out: none."""
    pod_cidrs: Annotated[
        tuple[
            Annotated[
                str,
                Meta(
                    title="Range",
                    description="A range of addresses of one family.",
                    max_length=100,
                    examples=["10.1.2.0/26"],
                    extra_json_schema={"format": "cidr"},
                ),
            ],
            ...,
        ],
        Meta(title="Ranges of addresses", max_length=2, examples=[["10.1.2.0/26"]]),
    ] = msgspec.field(default=(), name="podCIDRs")
    """The node's ranges of addresses for pods, of which a NodeResource counts the addresses; left out: none."""
    taints: Annotated[
        tuple[
            Annotated[
                ShapeTaint,
                Meta(
                    title="Taint", description="A taint.", examples=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]
                ),
            ],
            ...,
        ],
        Meta(max_length=100, examples=[[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]]),
    ] = ()
    """The taints of the node; left out: none."""
    allocatable: Annotated[_Amounts, Meta(examples=[{"nvidia.com/gpu": 8}])] = msgspec.field(default_factory=dict)
    """The amounts that pods may use. Where they are left out, cpu, memory, ephemeral-storage and pods are plentiful,
    and any other resource is 0. The capacity is the same."""


class ScenarioNamespace(Written, frozen=True):
    """A namespace of a scenario."""

    labels: _Labels = msgspec.field(default_factory=dict)
    """Labels by key; left out: none."""
    annotations: Annotated[
        Mapping[str, Annotated[_AnnotationText, Meta(examples=["nvidia.com/gpu=12"])]],
        Meta(
            max_length=100, examples=[{"limits.tallygate.dev/gpus": "nvidia.com/gpu=12"}], extra_json_schema=_LABEL_KEYS
        ),
    ] = msgspec.field(default_factory=dict)
    """Annotations by key; left out: none."""


class ScenarioDocument(Written, frozen=True, kw_only=True):
    """A scenario as it is written."""

    name: Annotated[str, Meta(max_length=200, examples=["a team may use eight GPUs"])]
    """The subject of the scenario, as a sentence."""
    policies: Annotated[
        tuple[
            Annotated[
                Annotated[str, Meta(max_length=1000, extra_json_schema={"format": "path"})] | Mapping[str, Any],
                Meta(title="Policies", description="A path, or a policy.", examples=["../cap-per-team.yaml"]),
            ],
            ...,
        ],
        Meta(min_length=1, max_length=100, examples=[["../cap-per-team.yaml"]]),
    ] = ()
    """The active policies: paths of files and folders relative to this file, and whole policies; left out: the shipped
    ones."""
    time: Annotated[str | None, Meta(examples=["2026-12-04T17:00:00Z"], extra_json_schema={"format": "time"})] = None
    """The time of the first step, with its zone; `wait` advances it. Limits that end by themselves (`overrides` of a
    cap) are those of this time. Left out: every override that has an end has ended."""
    nodes: Annotated[
        Mapping[
            str,
            Annotated[
                ScenarioNode,
                Meta(
                    title="Node",
                    description="A node.",
                    examples=[{"labels": {"gpu": "a100"}, "allocatable": {"nvidia.com/gpu": 8}}],
                ),
            ],
        ],
        Meta(
            max_length=1000,
            examples=[{"a100-1": {"allocatable": {"nvidia.com/gpu": 8}}}],
            extra_json_schema={"propertyNames": {"format": "object-name"}},
        ),
    ] = msgspec.field(default_factory=dict)
    """The nodes of the cluster by name. A DaemonSet creates a pod on each that its labels and taints allow, rules with
    `advertised` or `schedulable` use them, and NodeResources publish amounts on them. Limits that are percentages are
    of what they have, at once. Pods are not scheduled: only pods with a node name use resources of a node. Left out:
    none, and such limits are not known."""
    namespaces: Annotated[
        Mapping[
            str,
            Annotated[
                ScenarioNamespace,
                Meta(
                    title="Namespace",
                    description="A namespace; {} has no labels and no annotations.",
                    examples=[{"labels": {"team": "vision"}}],
                ),
            ],
        ],
        Meta(
            min_length=1,
            max_length=1000,
            examples=[{"team-a": {"labels": {"team": "vision"}}}],
            extra_json_schema={"propertyNames": {"format": "object-name"}},
        ),
    ] = msgspec.field(default_factory=dict)
    """The namespaces that exist from the start, by name; left out: one with the name default."""
    steps: Annotated[
        tuple[
            Annotated[
                Step,
                Meta(
                    title="Step",
                    description="One action and its expected result. Exactly one of create, update, resize, scale, "
                    "delete, finish, fail, label, annotate, allocate and wait must be given.",
                    examples=[
                        {
                            "create": {"pod": "trainer", "resources": {"nvidia.com/gpu": 2}},
                            "expect": {"verdict": "allowed"},
                        },
                        {"wait": "10s"},
                    ],
                    extra_json_schema={"oneOf": [{"required": [action]} for action in ACTIONS]},
                ),
            ],
            ...,
        ],
        Meta(min_length=1, max_length=500, examples=[[{"wait": "10s"}]]),
    ]
    """The steps, in their order. The first step with an unexpected result ends the scenario."""
