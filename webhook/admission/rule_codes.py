"""The codes of rules (TG1xx) and caps (TG2xx)."""

from webhook.accounting.problem import Code


def _format_limits_example(amount: str, resource: str = "nvidia.com/gpu") -> str:
    return f"resources:\n  limits:\n    {resource}: {amount}\n"


NOT_WHOLE = Code(
    "TG101",
    "not-whole",
    "An amount of something that is counted in whole units is not a whole number.",
    "Half a GPU, licence or address cannot be handed out. Kubernetes refuses a fraction of an extended resource late "
    "and in other words, and lets a fraction of an opaque resource or of a name that merely contains kubernetes.io/ "
    "through: the scheduler then rounds it up.",
    _format_limits_example("1500m"),
    _format_limits_example("2"),
)
MALFORMED_NAME = Code(
    "TG102",
    "malformed-name",
    "A resource name is not one that Kubernetes could ever count.",
    "A name with a typing slip is a different resource: nothing advertises it, so the pod waits for ever. In a node's "
    "status Kubernetes checks no name at all.",
    _format_limits_example("1", "Nvidia.com/gpu"),
    _format_limits_example("1"),
)
REQUEST_NOT_LIMIT = Code(
    "TG103",
    "request-not-limit",
    "Request and limit of a resource that cannot be overcommitted differ.",
    "What is counted in whole units is held or not held; there is no bursting. The request is what the scheduler "
    "counts, the limit what the node hands out, so they have to be the same.",
    "resources:\n  requests:\n    nvidia.com/gpu: 1\n  limits:\n    nvidia.com/gpu: 2\n",
    "resources:\n  requests:\n    nvidia.com/gpu: 2\n  limits:\n    nvidia.com/gpu: 2\n",
)
LIMIT_MISSING = Code(
    "TG104",
    "limit-missing",
    "A resource that cannot be overcommitted is requested without a limit.",
    "The node hands out by the limit, so a request alone is counted but never given. Where policy says `fill`, the "
    "mutating webhook writes the limit for you.",
    "resources:\n  requests:\n    nvidia.com/gpu: 1\n",
    "resources:\n  requests:\n    nvidia.com/gpu: 1\n  limits:\n    nvidia.com/gpu: 1\n",
)
CONTAINER_BOUND = Code(
    "TG105",
    "container-bound",
    "One container asks for more, or less, than a rule allows.",
    "The policy bounds what a single container may ask for: more than the largest node has could never run, less than "
    "the smallest useful share wastes a whole device.",
    _format_limits_example("64"),
    _format_limits_example("8"),
)
NOT_A_MULTIPLE = Code(
    "TG106",
    "not-a-multiple",
    "An amount is not a multiple of what a rule hands out at a time.",
    "Some things come in packs: GPUs by the board, addresses by the block.",
    _format_limits_example("3"),
    _format_limits_example("4"),
)
NOT_ONE_OF = Code(
    "TG107",
    "not-one-of",
    "An amount is none of those that a rule allows.",
    "Odd shapes fragment the nodes; the policy names the shapes that pack well.",
    _format_limits_example("3"),
    _format_limits_example("4"),
)
POD_BOUND = Code(
    "TG108",
    "pod-bound",
    "All containers of a pod together ask for more, or less, than a rule allows.",
    "The sum is what the scheduler counts: containers and sidecars add up, of the other init containers the largest "
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
    "An amount is larger than Kubernetes can hold (9223372036854775807).",
    "Kubernetes wraps such a number around: 10E of anything counts as 0 and fits everywhere.",
    _format_limits_example("10E"),
    _format_limits_example("8"),
)
NEGATIVE = Code(
    "TG111",
    "negative",
    "An amount is below zero.",
    "Nobody can hold less than nothing; a negative amount would make room for others.",
    _format_limits_example("-1"),
    _format_limits_example("1"),
)
NOT_ADVERTISED = Code(
    "TG112",
    "not-advertised",
    "A pod asks for something that no node advertises.",
    "A slip in a name, or a device plugin that does not run: the pod would wait for ever. The nearest name that some "
    "node advertises is suggested. It is judged by the nodes that the gate follows, where a rule says `advertised`.",
    _format_limits_example("1", "nvidia.com/gpus"),
    _format_limits_example("1"),
)
NEVER_SCHEDULABLE = Code(
    "TG113",
    "never-schedulable",
    "No node can ever run the pod, whoever leaves it.",
    "No node is large enough, or none that is lets the pod in: more nodes would help, waiting does not. It is judged "
    "by the nodes that the gate follows, where a rule says `schedulable`. `tallygate predict` says what would help.",
    "# the largest node has 8 GPUs\n" + _format_limits_example("16"),
    "# the largest node has 8 GPUs\n" + _format_limits_example("8"),
)
NOT_SCHEDULABLE_NOW = Code(
    "TG114",
    "not-schedulable-now",
    "No node has room for the pod now, or not for all pods of a workload.",
    "They would wait until others end or nodes come. It is judged by the nodes and pods that the gate follows, where a "
    "rule says `schedulable: not-now`. `tallygate predict` says who is in the way, and what would help.",
    "# 4 GPUs are free on one node\nkind: Deployment\nspec:\n  replicas: 3  # of 2 GPUs each\n",
    "# 4 GPUs are free on one node\nkind: Deployment\nspec:\n  replicas: 2  # of 2 GPUs each\n",
)
PREEMPTS_OTHERS = Code(
    "TG115",
    "preempts-others",
    "No node has room for the pod now, and the scheduler makes room by asking pods of lower priority to leave.",
    "The pod will run, and something else stops for it: that is what priorities are for, so nothing is refused for it, "
    "even where the rule denies. It is judged by the nodes and pods that the gate follows, where a rule says "
    "`schedulable: not-now`; disruption budgets, which the scheduler keeps where it can, are not looked at.",
    "# the one node has 4 GPUs, 2 of them held by a pod of lower priority\n" + _format_limits_example("3"),
    "# the one node has 4 GPUs, 2 of them held by a pod of lower priority\n" + _format_limits_example("2"),
)
OVER_CAP = Code(
    "TG201",
    "over-cap",
    "The pod would take its namespaces over a cap.",
    "A cap is what a set of namespaces may hold at one time. Room comes back when pods end or are deleted; "
    "`tallygate usage` shows who holds what.",
    "# cap gpus holds 7 of 8\n" + _format_limits_example("2"),
    "# cap gpus holds 7 of 8\n" + _format_limits_example("1"),
)
OVER_SOFT_CAP = Code(
    "TG202",
    "over-soft-cap",
    "The pod takes its namespaces over the soft part of a cap.",
    "Nothing is refused yet: it is the admin's early warning that the cap is nearly used up.",
    "# cap gpus: soft 6, hard 8, holds 6\n" + _format_limits_example("1"),
    "# cap gpus: soft 6, hard 8, holds 5\n" + _format_limits_example("1"),
)
NO_LIMIT_UNDER_CAP = Code(
    "TG203",
    "no-limit-under-cap",
    "A cap counts limits, and a container sets none.",
    "A container without a limit may use anything, so no sum of limits can be kept under a cap.",
    "# cap: hard: {limits.memory: 64Gi}\nresources:\n  requests:\n    memory: 1Gi\n",
    "# cap: hard: {limits.memory: 64Gi}\nresources:\n  limits:\n    memory: 1Gi\n",
)
WORKLOAD_OVER_CAP = Code(
    "TG204",
    "workload-over-cap",
    "The pods of a workload ask more together than a cap allows.",
    "The API server stores the workload and refuses its pods one by one, and only an event on the ReplicaSet or Job "
    "says so. Where the cap says `workloads: deny`, the workload itself is refused.",
    "# cap gpus: hard: {nvidia.com/gpu: 8}\nkind: Deployment\nspec:\n  replicas: 5  # of 2 GPUs each\n",
    "# cap gpus: hard: {nvidia.com/gpu: 8}\nkind: Deployment\nspec:\n  replicas: 4  # of 2 GPUs each\n",
)
WORKLOAD_OVER_FREE = Code(
    "TG205",
    "workload-over-free",
    "Some pods of a workload have no room under a cap at the moment.",
    "The cap could hold them, but others hold the room. The controller tries again, ever more slowly, until other pods "
    "end or are deleted.",
    "# cap gpus holds 6 of 8\nkind: Deployment\nspec:\n  replicas: 2  # of 2 GPUs each\n",
    "# cap gpus holds 6 of 8\nkind: Deployment\nspec:\n  replicas: 1  # of 2 GPUs\n",
)
WORKLOAD_ROLLOUT = Code(
    "TG206",
    "workload-rollout",
    "A rollout of a Deployment has no room under a cap for the pods that it starts first.",
    "A rolling update starts up to maxSurge new pods before it ends old ones. Without room for them it goes on only as "
    "far as maxUnavailable lets it end old pods first; with maxUnavailable 0 it never goes on.",
    "# cap gpus: hard: {nvidia.com/gpu: 8}\nkind: Deployment\nspec:\n  replicas: 4  # of 2 GPUs each\n"
    "  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}\n",
    "# cap gpus: hard: {nvidia.com/gpu: 8}\nkind: Deployment\nspec:\n  replicas: 4  # of 2 GPUs each\n"
    "  strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}\n",
)
NAMESPACE_OVER_CAP = Code(
    "TG207",
    "namespace-over-cap",
    "A namespace comes under a cap with pods that take it over what it allows.",
    "Labels of a namespace say which caps are over it. Pods that are there already are not removed, so the cap holds "
    "more than it allows for a while, and lets nothing more in. `tallygate usage` shows it.",
    "# cap batch: shared, hard: {nvidia.com/gpu: 8}, holds 6\nkind: Namespace  # its pods hold 4\nmetadata:\n"
    "  labels: {team: batch}\n",
    "# cap batch: shared, hard: {nvidia.com/gpu: 8}, holds 4\nkind: Namespace  # its pods hold 4\nmetadata:\n"
    "  labels: {team: batch}\n",
)
WORKLOAD_OVER_QUOTA = Code(
    "TG208",
    "workload-over-quota",
    "The pods of a workload, or those that a rollout of it starts first, have no room under a ResourceQuota.",
    "The API server stores the workload, and ResourceQuota refuses its pods one by one, which only an event on the "
    "ReplicaSet or Job says. Nothing is refused for it here: it is told where a gate follows the cluster's quotas.",
    "# ResourceQuota gpus: hard: {requests.nvidia.com/gpu: 8}, used: 6\nkind: Deployment\nspec:\n"
    "  replicas: 2  # of 2 GPUs each\n",
    "# ResourceQuota gpus: hard: {requests.nvidia.com/gpu: 8}, used: 6\nkind: Deployment\nspec:\n"
    "  replicas: 1  # of 2 GPUs\n",
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
    OVER_CAP,
    OVER_SOFT_CAP,
    NO_LIMIT_UNDER_CAP,
    WORKLOAD_OVER_CAP,
    WORKLOAD_OVER_FREE,
    WORKLOAD_ROLLOUT,
    NAMESPACE_OVER_CAP,
    WORKLOAD_OVER_QUOTA,
)
"""Every code of rules and caps, for `tallygate explain` and the documentation."""
