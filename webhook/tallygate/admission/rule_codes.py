"""The codes of rules (TG1xx) and caps (TG2xx)."""

from tallygate.accounting.problem import Code


def _format_limits_example(amount: str, resource: str = "nvidia.com/gpu") -> str:
    return f"resources:\n  limits:\n    {resource}: {amount}\n"


def _format_claim_example(*fields: str) -> str:
    written = ", ".join(("deviceClassName: gpu.example.com", *fields))
    return f"devices:\n  requests:\n  - name: gpu\n    exactly: {{{written}}}\n"


NOT_WHOLE = Code(
    "TG101",
    "not-whole",
    "An amount of something that is counted in whole units is not a whole number.",
    "Half a GPU, licence or address cannot be allocated. Kubernetes rejects a fraction of an extended resource late "
    "and with another message, and accepts a fraction of an opaque resource or of a name that merely contains "
    "kubernetes.io/: the scheduler then rounds it up.",
    _format_limits_example("1500m"),
    _format_limits_example("2"),
)
MALFORMED_NAME = Code(
    "TG102",
    "malformed-name",
    "A resource name is not one that Kubernetes could ever count.",
    "A name with a typing slip is a different resource: nothing advertises it, so the pod stays pending. In a node's "
    "status Kubernetes checks no name at all.",
    _format_limits_example("1", "Nvidia.com/gpu"),
    _format_limits_example("1"),
)
REQUEST_NOT_LIMIT = Code(
    "TG103",
    "request-not-limit",
    "Request and limit of a resource that cannot be overcommitted differ.",
    "A resource that is counted in whole units allows no bursting. The scheduler counts the request, and the node "
    "allocates the limit, so both must be equal.",
    "resources:\n  requests:\n    nvidia.com/gpu: 1\n  limits:\n    nvidia.com/gpu: 2\n",
    "resources:\n  requests:\n    nvidia.com/gpu: 2\n  limits:\n    nvidia.com/gpu: 2\n",
)
LIMIT_MISSING = Code(
    "TG104",
    "limit-missing",
    "A resource that cannot be overcommitted is requested without a limit.",
    "The node allocates by the limit, so a request alone is counted but never allocated. Where the policy has `fill`, "
    "the mutating webhook writes the limit.",
    "resources:\n  requests:\n    nvidia.com/gpu: 1\n",
    "resources:\n  requests:\n    nvidia.com/gpu: 1\n  limits:\n    nvidia.com/gpu: 1\n",
)
CONTAINER_BOUND = Code(
    "TG105",
    "container-bound",
    "One container requests more, or less, than a rule allows.",
    "The policy bounds the request of a single container: more than the largest node has could never run, and less "
    "than the smallest useful share wastes a whole device.",
    _format_limits_example("64"),
    _format_limits_example("8"),
)
NOT_A_MULTIPLE = Code(
    "TG106",
    "not-a-multiple",
    "An amount is not a multiple of the unit in a rule.",
    "Some things come in packs: GPUs by the board, addresses by the block.",
    _format_limits_example("3"),
    _format_limits_example("4"),
)
NOT_ONE_OF = Code(
    "TG107",
    "not-one-of",
    "An amount is not one of the amounts in a rule.",
    "Odd shapes fragment the nodes; the policy names the shapes that pack well.",
    _format_limits_example("3"),
    _format_limits_example("4"),
)
POD_BOUND = Code(
    "TG108",
    "pod-bound",
    "All containers of a pod together request more, or less, than a rule allows.",
    "The scheduler counts the sum: containers and sidecars add up, of the other init containers the largest "
    "counts, overhead is added. `tallygate explain pod -f FILE` shows the sum term by term.",
    "containers:\n- resources: {limits: {nvidia.com/gpu: 8}}\n- resources: {limits: {nvidia.com/gpu: 8}}\n",
    "containers:\n- resources: {limits: {nvidia.com/gpu: 4}}\n- resources: {limits: {nvidia.com/gpu: 4}}\n",
)
UNREADABLE = Code(
    "TG109",
    "unreadable-quantity",
    "An amount is not a quantity.",
    "Quantities are digits with at most one suffix (m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei) or an exponent.",
    _format_limits_example("two"),
    _format_limits_example("2"),
)
TOO_LARGE = Code(
    "TG110",
    "too-large",
    "An amount is larger than Kubernetes can store (9223372036854775807).",
    "Kubernetes wraps such a number around: 10E of anything counts as 0 and fits everywhere.",
    _format_limits_example("10E"),
    _format_limits_example("8"),
)
NEGATIVE = Code(
    "TG111",
    "negative",
    "An amount is below zero.",
    "No pod can use less than nothing; a negative amount would free resources for others.",
    _format_limits_example("-1"),
    _format_limits_example("1"),
)
NOT_ADVERTISED = Code(
    "TG112",
    "not-advertised",
    "A pod requests a resource that no node advertises, or a claim devices that no ResourceSlice publishes.",
    "A typing slip in a name, or a device plugin or driver that does not run: the pod would stay pending. The message "
    "suggests the nearest name that exists. Of a selector that no device passes, it has the condition and what the "
    "devices have. Rules with `advertised` check the nodes, device classes and ResourceSlices that the gate watches, "
    "and the NodeShapes of the policies: nodes that may come.",
    _format_limits_example("1", "nvidia.com/gpus"),
    _format_limits_example("1"),
)
NEVER_SCHEDULABLE = Code(
    "TG113",
    "never-schedulable",
    "No node can ever run the pod, whichever pods end.",
    "No node is large enough, or every large enough node rejects the pod: more nodes would help, waiting does not. "
    "Rules with `schedulable` check the nodes that the gate watches, and nodes that may come: the NodeShapes of the "
    "policies. `tallygate predict` shows what would help.",
    "# the largest node has 8 GPUs\n" + _format_limits_example("16"),
    "# the largest node has 8 GPUs\n" + _format_limits_example("8"),
)
NOT_SCHEDULABLE_NOW = Code(
    "TG114",
    "not-schedulable-now",
    "No node is feasible for the pod now, or not for all pods of a workload.",
    "They would wait until others end or nodes are added. Rules with `schedulable: not-now` check the nodes and pods "
    "that the gate watches. `tallygate predict` shows the pods that use the resources, and changes that would help.",
    "# 4 GPUs are free on one node\nkind: Deployment\nspec:\n  replicas: 3  # of 2 GPUs each\n",
    "# 4 GPUs are free on one node\nkind: Deployment\nspec:\n  replicas: 2  # of 2 GPUs each\n",
)
PREEMPTS_OTHERS = Code(
    "TG115",
    "preempts-others",
    "No node is feasible for the pod now, and the scheduler preempts pods of lower priority for it.",
    "The pod will run, and other pods end for it. This is the purpose of priorities: no request is denied for it, even "
    "where the rule denies. Rules with `schedulable: not-now` check the nodes and pods that the gate watches; "
    "disruption budgets, which the scheduler respects where it can, are not checked.",
    "# the one node has 4 GPUs, 2 of them used by a pod of lower priority\n" + _format_limits_example("3"),
    "# the one node has 4 GPUs, 2 of them used by a pod of lower priority\n" + _format_limits_example("2"),
)
CLAIM_BOUND = Code(
    "TG116",
    "claim-bound",
    "A claim may get more devices, or fewer, than a rule allows.",
    "A claim counts the most devices that it may get: allocationMode All counts as 32, the largest number of a claim. "
    "With firstAvailable every alternative must be within the bounds, because the scheduler chooses one. Admin access "
    "counts nothing.",
    _format_claim_example("count: 16"),
    _format_claim_example("count: 8"),
)
CLASS_NOT_ALLOWED = Code(
    "TG117",
    "class-not-allowed",
    "A claim requests devices of a class that a rule does not allow.",
    "The classes of a cluster are for different users: whole devices for some, shares of them for others. The rule "
    "names the allowed classes.",
    "devices:\n  requests:\n  - name: gpu\n    exactly: {deviceClassName: whole-node.example.com}\n",
    _format_claim_example(),
)
ALLOCATION_MODE_NOT_ALLOWED = Code(
    "TG118",
    "allocation-mode-not-allowed",
    "A claim requests devices in an allocation mode that a rule does not allow.",
    "allocationMode All requests every matching device of a node, however many it has; ExactCount requests a number.",
    _format_claim_example("allocationMode: All"),
    _format_claim_example("allocationMode: ExactCount", "count: 2"),
)
ADMIN_ACCESS_NOT_ALLOWED = Code(
    "TG119",
    "admin-access-not-allowed",
    "A user requests admin access to devices, and a rule does not allow it to this user.",
    "Admin access ignores that other pods use the devices. Kubernetes allows it to every user of a namespace with the "
    'label `resource.kubernetes.io/admin-access: "true"`; the rule names the users.',
    _format_claim_example("adminAccess: true"),
    _format_claim_example(),
)
SELECTOR_MISSING = Code(
    "TG120",
    "selector-missing",
    "A claim selects devices by their class alone, and a rule requires a selector.",
    "A class may contain devices of several models. A claim without a selector gets any of them, the scarce ones too.",
    _format_claim_example("count: 1"),
    _format_claim_example("selectors: [{cel: {expression: 'device.driver == \"gpu.example.com\"'}}]"),
)
OVER_CAP = Code(
    "TG201",
    "over-cap",
    "The pod would exceed a cap of its namespace.",
    "A cap limits the amounts that the pods of a set of namespaces use at one time. Amounts are free again when pods "
    "end or are deleted; `tallygate usage` shows the consumers. With `spec.surge` of the cap the pods of a controller "
    "that rolls may exceed hard by the surge, until its time is over.",
    "# cap gpus: used 7, hard 8\n" + _format_limits_example("2"),
    "# cap gpus: used 7, hard 8\n" + _format_limits_example("1"),
)
OVER_SOFT_CAP = Code(
    "TG202",
    "over-soft-cap",
    "The pod exceeds the soft limit of a cap.",
    "No request is denied yet: it is an early warning that the cap is nearly used up.",
    "# cap gpus: soft 6, hard 8, used 6\n" + _format_limits_example("1"),
    "# cap gpus: soft 6, hard 8, used 5\n" + _format_limits_example("1"),
)
NO_LIMIT_UNDER_CAP = Code(
    "TG203",
    "no-limit-under-cap",
    "A cap counts limits, and a container sets none; or a product, and a container requests one factor alone; or an "
    "annotation that is no amount.",
    "A container without a limit may use anything, so no cap can bound the sum of limits. Init containers and "
    "sidecars need one too, and a limit of 0 of cpu, memory or ephemeral-storage is missing, since the kubelet ignores "
    "it. A limit at pod level is one for all containers. A container or claim with one factor of a product uses an "
    "amount that the product does not show. An annotation that requests GPUs and is no amount would count nothing.",
    "# cap: hard: {limits.memory: 64Gi}\nresources:\n  requests:\n    memory: 1Gi\n",
    "# cap: hard: {limits.memory: 64Gi}\nresources:\n  limits:\n    memory: 1Gi\n",
)
WORKLOAD_OVER_CAP = Code(
    "TG204",
    "workload-over-cap",
    "The pods of a workload together request more than a cap allows.",
    "The API server stores the workload and rejects its pods one by one, and only an event on the ReplicaSet or Job "
    "reports it. Where the cap has `workloads: deny`, the workload itself is denied.",
    "# cap gpus: hard: {nvidia.com/gpu: 8}\nkind: Deployment\nspec:\n  replicas: 5  # of 2 GPUs each\n",
    "# cap gpus: hard: {nvidia.com/gpu: 8}\nkind: Deployment\nspec:\n  replicas: 4  # of 2 GPUs each\n",
)
WORKLOAD_OVER_FREE = Code(
    "TG205",
    "workload-over-free",
    "Some pods of a workload exceed the free amount of a cap now.",
    "The hard limit is large enough for them, but other pods use it. The controller retries, ever more slowly, until "
    "other pods end or are deleted.",
    "# cap gpus: used 6, hard 8\nkind: Deployment\nspec:\n  replicas: 2  # of 2 GPUs each\n",
    "# cap gpus: used 6, hard 8\nkind: Deployment\nspec:\n  replicas: 1  # of 2 GPUs\n",
)
WORKLOAD_ROLLOUT = Code(
    "TG206",
    "workload-rollout",
    "A rollout of a Deployment exceeds a cap with the pods that it starts first.",
    "A rolling update starts up to maxSurge new pods before it ends old ones. If the cap has no free amount for them, "
    "it proceeds only as far as maxUnavailable allows old pods to end first; with maxUnavailable 0 it never proceeds. "
    "The surge of a cap (`spec.surge`) leaves room for these pods.",
    "# cap gpus: hard: {nvidia.com/gpu: 8}\nkind: Deployment\nspec:\n  replicas: 4  # of 2 GPUs each\n"
    "  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}\n",
    "# cap gpus: hard: {nvidia.com/gpu: 8}\nkind: Deployment\nspec:\n  replicas: 4  # of 2 GPUs each\n"
    "  strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}\n",
)
WORKLOAD_AUTOSCALED_OVER_CAP = Code(
    "TG214",
    "workload-autoscaled-over-cap",
    "The pods to which an autoscaler may scale a workload exceed a cap.",
    "The pods at the start fit, so the workload works for a while. The cap rejects the pods that the autoscaler adds "
    "later, which only an event reports: its maximum is never reached. It is a warning, also with `workloads: deny`.",
    "# cap gpus: hard: {nvidia.com/gpu: 8}\nkind: RayCluster\nspec:\n  enableInTreeAutoscaling: true\n"
    "  workerGroupSpecs:\n  - {replicas: 2, maxReplicas: 20}  # of 1 GPU each\n",
    "# cap gpus: hard: {nvidia.com/gpu: 8}\nkind: RayCluster\nspec:\n  enableInTreeAutoscaling: true\n"
    "  workerGroupSpecs:\n  - {replicas: 2, maxReplicas: 8}  # of 1 GPU each\n",
)
NEW_CAP = Code(
    "TG217",
    "new-cap",
    "A cap is new: it counts what runs before it enforces its limits.",
    "It has enforced no limit yet, so until then it admits every request, and reserves for it. It counts once all "
    "replicas of the gate have it, and no request that was admitted without it can still be stored: a minute or less. "
    "The message has the time.",
    "# cap gpus: created a moment ago, hard: {nvidia.com/gpu: 8}\n" + _format_limits_example("1"),
    "# cap gpus: active, hard: {nvidia.com/gpu: 8}\n" + _format_limits_example("1"),
)
CAP_NOT_COUNTED = Code(
    "TG218",
    "cap-not-counted",
    "A cap does not decide yet, since its ledger must be counted first.",
    "The answer is 429, and the client tries again. A ledger that is lost, or that belongs to a cap with changed "
    "namespaces, pods or sharing, is counted for a minute or less, since the cap enforced its limit before; the "
    "message has the time. Any other count takes a moment.",
    "# cap gpus: its ledger was deleted\n" + _format_limits_example("1"),
    "# cap gpus: its ledger is counted\n" + _format_limits_example("1"),
)
GPU_ANNOTATION_NOT_COUNTED = Code(
    "TG219",
    "gpu-annotation-not-counted",
    "A pod requests GPUs by an annotation that no cap counts, under a cap that limits GPUs.",
    "KAI-Scheduler and Run:ai give a pod a part of a GPU, or an amount of its memory, by annotations: its containers "
    "request no resource, so it costs nothing under a cap on `nvidia.com/gpu`. `counts` of a cap counts the "
    "annotations. It is always a warning.",
    '# cap gpus: hard: {nvidia.com/gpu: 8}\nkind: Pod\nmetadata:\n  annotations: {gpu-fraction: "0.5"}\n',
    "# cap gpus: hard: {thousandths: 8000}\n"
    "# counts: {thousandths: {annotation: gpu-fraction, weights: {nvidia.com/gpu: 1000}}}\n"
    'kind: Pod\nmetadata:\n  annotations: {gpu-fraction: "0.5"}\n',
)
WORKLOAD_NOT_WHOLE = Code(
    "TG215",
    "workload-not-whole",
    "The pods of a workload that start together do not all have room under a cap with `admit: whole`.",
    "The pods of a Job wait for each other: a part that took what is free would wait for the rest, and keep it from "
    "others. So the workload is stored, and its amounts are reserved, if all its pods have room; else it is denied.",
    "# cap gpus: admit: whole, hard: {nvidia.com/gpu: 20}, used 16\nkind: Job\nspec:\n"
    "  parallelism: 8  # of 1 GPU each\n",
    "# cap gpus: admit: whole, hard: {nvidia.com/gpu: 20}, used 12\nkind: Job\nspec:\n"
    "  parallelism: 8  # of 1 GPU each\n",
)
LIMIT_ANNOTATION = Code(
    "TG216",
    "limit-annotation",
    "The annotation of a namespace that sets limits of a cap is changed by another user, or is not valid.",
    "`spec.overrideAnnotation` of a cap names its users and its largest limits. It allows tenants no change of their "
    "limits, also no removal. An annotation that no cap reads is denied too: a cap that comes later would read it.",
    'kind: Namespace\nmetadata:\n  annotations: {limits.tallygate.dev/gpus: "12"}\n',
    "kind: Namespace\nmetadata:\n  annotations: {limits.tallygate.dev/gpus: nvidia.com/gpu=12 until=2026-12-04}\n",
)
NAMESPACE_OVER_CAP = Code(
    "TG207",
    "namespace-over-cap",
    "A namespace becomes a member of a cap, and its pods and claims exceed it.",
    "The labels of a namespace select its caps. Existing pods and claims are not removed, so the cap stays exceeded "
    "for a while, and accepts no further ones. `tallygate usage` shows it.",
    "# cap batch: shared, hard: {nvidia.com/gpu: 8}, used 6\nkind: Namespace  # its pods use 4\nmetadata:\n"
    "  labels: {team: batch}\n",
    "# cap batch: shared, hard: {nvidia.com/gpu: 8}, used 4\nkind: Namespace  # its pods use 4\nmetadata:\n"
    "  labels: {team: batch}\n",
)
WORKLOAD_OVER_QUOTA = Code(
    "TG208",
    "workload-over-quota",
    "The pods of a workload, or those that a rollout starts first, exceed a ResourceQuota, or lack an amount for it.",
    "The API server stores the workload, and ResourceQuota rejects its pods one by one, which only an event on the "
    "ReplicaSet or Job reports, or the claims for devices that controllers make for them. A quota on cpu or memory "
    "requires that each container sets it. The gate never denies for it: it warns where it watches the quotas of the "
    "cluster.",
    "# ResourceQuota gpus: hard: {requests.nvidia.com/gpu: 8}, used: 6\nkind: Deployment\nspec:\n"
    "  replicas: 2  # of 2 GPUs each\n",
    "# ResourceQuota gpus: hard: {requests.nvidia.com/gpu: 8}, used: 6\nkind: Deployment\nspec:\n"
    "  replicas: 1  # of 2 GPUs\n",
)
CLAIMS_OVER_CAP = Code(
    "TG209",
    "claims-over-cap",
    "A pod and the claims that templates make for it request more than a cap allows.",
    "A controller makes the claims after the pod is stored. The cap would reject one of them each time, and the pod "
    "would stay pending.",
    "# cap gpus: hard: {nvidia.com/gpu: 4}\nkind: Pod\nspec:\n"
    "  resourceClaims: [{name: gpus, resourceClaimTemplateName: eight-gpus}]\n",
    "# cap gpus: hard: {nvidia.com/gpu: 4}\nkind: Pod\nspec:\n"
    "  resourceClaims: [{name: gpus, resourceClaimTemplateName: two-gpus}]\n",
)
CLAIMS_OVER_FREE = Code(
    "TG210",
    "claims-over-free",
    "The claims that templates make for a pod exceed the free amount of a cap now.",
    "The pod is stored, and the cap rejects its claims, which only an event on the pod reports. The controller "
    "retries, ever more slowly, until other pods end or claims are deleted.",
    "# cap gpus: used 3, hard 4\nkind: Pod\nspec:\n"
    "  resourceClaims: [{name: gpus, resourceClaimTemplateName: two-gpus}]\n",
    "# cap gpus: used 2, hard 4\nkind: Pod\nspec:\n"
    "  resourceClaims: [{name: gpus, resourceClaimTemplateName: two-gpus}]\n",
)
DEVICES_OVER_CAP = Code(
    "TG211",
    "devices-over-cap",
    "The least that a claim can get of the published devices exceeds a cap.",
    "A cap by allocated devices decides when the scheduler allocates them, and rejects all that the claim can get. "
    "The claim is stored, and its pod stays pending until other devices are published. It is always a warning.",
    "# cap memory: hard: {gpu-memory: 40Gi}, devices: {gpu-memory: {sum: memory}}\n# every device has 80Gi\n"
    + _format_claim_example("count: 1"),
    "# cap memory: hard: {gpu-memory: 40Gi}, devices: {gpu-memory: {sum: memory}}\n# one of the devices has 40Gi\n"
    + _format_claim_example("count: 1"),
)
DEVICES_OVER_FREE = Code(
    "TG212",
    "devices-over-free",
    "The least that a claim can get of the published devices exceeds the free amount of a cap now.",
    "A cap by allocated devices decides when the scheduler allocates them. The claim is stored, and its pod stays "
    "pending until the devices of other claims are free. It is always a warning.",
    "# cap memory: used 120Gi, hard 160Gi, devices: {gpu-memory: {sum: memory}}\n# every device has 80Gi\n"
    + _format_claim_example("count: 1"),
    "# cap memory: used 80Gi, hard 160Gi, devices: {gpu-memory: {sum: memory}}\n# every device has 80Gi\n"
    + _format_claim_example("count: 1"),
)
CLAIMS_OVER_QUOTA = Code(
    "TG213",
    "claims-over-quota",
    "The claims that controllers make for a pod exceed a ResourceQuota.",
    "The API server stores the pod, and ResourceQuota rejects its claims: those of templates, or the claim that "
    "kube-scheduler makes for extended resources of device classes. Only an event on the pod or its condition "
    "PodScheduled reports that. The gate never denies for it: it warns where it watches the quotas of the cluster.",
    "# ResourceQuota gpus: hard: {gpu.example.com.deviceclass.resource.k8s.io/devices: 4}, used: 3\nkind: Pod\nspec:\n"
    "  resourceClaims: [{name: gpus, resourceClaimTemplateName: two-gpus}]\n",
    "# ResourceQuota gpus: hard: {gpu.example.com.deviceclass.resource.k8s.io/devices: 4}, used: 2\nkind: Pod\nspec:\n"
    "  resourceClaims: [{name: gpus, resourceClaimTemplateName: two-gpus}]\n",
)

CODES: tuple[Code, ...] = (
    NOT_WHOLE,
    MALFORMED_NAME,
    REQUEST_NOT_LIMIT,
    LIMIT_MISSING,
    CONTAINER_BOUND,
    NOT_A_MULTIPLE,
    NOT_ONE_OF,
    POD_BOUND,
    UNREADABLE,
    TOO_LARGE,
    NEGATIVE,
    NOT_ADVERTISED,
    NEVER_SCHEDULABLE,
    NOT_SCHEDULABLE_NOW,
    PREEMPTS_OTHERS,
    CLAIM_BOUND,
    CLASS_NOT_ALLOWED,
    ALLOCATION_MODE_NOT_ALLOWED,
    ADMIN_ACCESS_NOT_ALLOWED,
    SELECTOR_MISSING,
    OVER_CAP,
    OVER_SOFT_CAP,
    NO_LIMIT_UNDER_CAP,
    WORKLOAD_OVER_CAP,
    WORKLOAD_OVER_FREE,
    WORKLOAD_ROLLOUT,
    NAMESPACE_OVER_CAP,
    WORKLOAD_OVER_QUOTA,
    CLAIMS_OVER_CAP,
    CLAIMS_OVER_FREE,
    DEVICES_OVER_CAP,
    DEVICES_OVER_FREE,
    CLAIMS_OVER_QUOTA,
    WORKLOAD_AUTOSCALED_OVER_CAP,
    WORKLOAD_NOT_WHOLE,
    LIMIT_ANNOTATION,
    NEW_CAP,
    CAP_NOT_COUNTED,
    GPU_ANNOTATION_NOT_COUNTED,
)
"""Every code of rules and caps, for `tallygate explain` and the documentation."""
