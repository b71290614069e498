"""Codes TG06x: problems that Kubernetes accepts and tallygate reports."""

from tallygate.accounting.problem import Code

FRACTION_ACCEPTED = Code(
    number="TG060",
    slug="fraction-accepted",
    summary="A resource that stands for whole things has a fraction, and Kubernetes stores it.",
    explanation="Opaque resources and every name that contains kubernetes.io/ escape Kubernetes' own check. The "
    "scheduler then "
    "rounds the sum up for each pod, so that two halves cost two.",
    invalid_example="resources:\n  limits:\n    pod.alpha.kubernetes.io/opaque-int-resource-bananas: 1500m",
    valid_example="resources:\n  limits:\n    pod.alpha.kubernetes.io/opaque-int-resource-bananas: 2",
)
OPAQUE_LIMIT_MISSING = Code(
    number="TG061",
    slug="opaque-limit-missing",
    summary="An opaque resource is requested without a limit, and Kubernetes stores it.",
    explanation="It is handed out whole, as an extended resource is, for which Kubernetes demands the limit.",
    invalid_example="resources:\n  requests:\n    pod.alpha.kubernetes.io/opaque-int-resource-bananas: 2",
    valid_example="resources:\n  limits:\n    pod.alpha.kubernetes.io/opaque-int-resource-bananas: 2",
)
OPAQUE_REQUEST_NOT_LIMIT = Code(
    number="TG062",
    slug="opaque-request-not-limit",
    summary="Request and limit of an opaque resource differ, and Kubernetes stores it.",
    explanation="It is handed out whole: the limit has no effect at all, so it must not say something else.",
    invalid_example="resources:\n  requests:\n    pod.alpha.kubernetes.io/opaque-int-resource-bananas: 1\n  limits:\n"
    "    pod.alpha.kubernetes.io/opaque-int-resource-bananas: 3",
    valid_example="resources:\n  limits:\n    pod.alpha.kubernetes.io/opaque-int-resource-bananas: 3",
)
NODE_NAME_ACCEPTED = Code(
    number="TG063",
    slug="node-name-accepted",
    summary="A node advertises a resource under a name that no container can request.",
    explanation="Kubernetes does not check names in a node's status.",
    invalid_example="status:\n  capacity:\n    Bad_Name!: 5",
    valid_example="status:\n  capacity:\n    example.com/good-name: 5",
)
QUOTA_NEVER_COUNTS = Code(
    number="TG064",
    slug="quota-never-counts",
    summary="A quota limits something that Kubernetes never counts.",
    explanation="Extended resources are counted as requests.<name> only; a quota on the bare name or on "
    "limits.<name> is "
    "stored and limits nothing. Other names that contain kubernetes.io/ are never counted.",
    invalid_example="hard:\n  nvidia.com/gpu: 4",
    valid_example="hard:\n  requests.nvidia.com/gpu: 4",
)
QUOTA_FRACTION = Code(
    number="TG065",
    slug="quota-fraction",
    summary="A quota on a resource that stands for whole things has a fraction, and Kubernetes stores it.",
    explanation="No container can use the half; a limit of 3500m is one of 3.",
    invalid_example="hard:\n  requests.nvidia.com/gpu: 3500m",
    valid_example="hard:\n  requests.nvidia.com/gpu: 3",
)
LIMIT_RANGE_FRACTION = Code(
    number="TG066",
    slug="limit-range-fraction",
    summary="A LimitRange has a fraction of a resource that stands for whole things, and Kubernetes stores it.",
    explanation="A fractional default is filled into containers, and every one of them is refused then.",
    invalid_example="limits:\n- {type: Container, default: {nvidia.com/gpu: 1500m}}",
    valid_example="limits:\n- {type: Container, default: {nvidia.com/gpu: 1}}",
)
LIMIT_RANGE_NEGATIVE = Code(
    number="TG067",
    slug="limit-range-negative",
    summary="A LimitRange has a value below zero, and Kubernetes stores it.",
    explanation="A negative default is filled into containers, and every one of them is refused then; a negative "
    "maximum can "
    "never be met.",
    invalid_example='limits:\n- {type: Container, default: {cpu: "-1"}}',
    valid_example="limits:\n- {type: Container, default: {cpu: 1}}",
)
FRACTIONAL_BYTES = Code(
    number="TG068",
    slug="fractional-bytes",
    summary="An amount of memory or storage has a fraction of a byte, and Kubernetes only warns.",
    explanation="There is no half a byte: m stands for thousandths, so that 500m of memory is one byte and the "
    "container is "
    "killed at once. M and Mi stand for millions.",
    invalid_example="resources:\n  limits:\n    memory: 500m",
    valid_example="resources:\n  limits:\n    memory: 500Mi",
)

LIMIT_RANGE_GIVES_DEVICES = Code(
    number="TG069",
    slug="limit-range-gives-devices",
    summary="A LimitRange gives each container of its namespace a device that the container does not request.",
    explanation="Kubernetes takes a missing default from max, and fills it into every container that names no amount, "
    "init containers and sidecars too. To bound what pods request, use a ResourceRule; or type Pod, and type Container "
    "with a default of 0, since type Pod rejects pods that name no amount.",
    invalid_example="limits:\n- {type: Container, max: {nvidia.com/gpu: 1}}",
    valid_example="limits:\n- {type: Pod, max: {nvidia.com/gpu: 1}}\n- {type: Container, default: {nvidia.com/gpu: 0}}",
)
LIMIT_RANGE_REJECTS_PODS = Code(
    number="TG070",
    slug="limit-range-rejects-pods",
    summary="A LimitRange lets the API server reject every pod that does not request a device.",
    explanation="Kubernetes fills a default request, or min in its place, into every container that names no amount. "
    "Without an equal default limit the API server rejects the pod, since devices need both. Bounds of type Pod, and "
    "ratios, reject a pod that has no amount.",
    invalid_example="limits:\n- {type: Container, defaultRequest: {nvidia.com/gpu: 1}}",
    valid_example="limits:\n- {type: Container, defaultRequest: {cpu: 1}}",
)

CODES: tuple[Code, ...] = (
    FRACTION_ACCEPTED,
    OPAQUE_LIMIT_MISSING,
    OPAQUE_REQUEST_NOT_LIMIT,
    NODE_NAME_ACCEPTED,
    QUOTA_NEVER_COUNTS,
    QUOTA_FRACTION,
    LIMIT_RANGE_FRACTION,
    LIMIT_RANGE_NEGATIVE,
    FRACTIONAL_BYTES,
    LIMIT_RANGE_GIVES_DEVICES,
    LIMIT_RANGE_REJECTS_PODS,
)
