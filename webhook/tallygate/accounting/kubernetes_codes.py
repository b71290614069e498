"""Codes TG0xx: problems that Kubernetes reports, and `CODES` with the problems that it should report.

TG00x are problems of names and quantities; TG01x to TG04x are problems of containers, pods, quotas and LimitRanges.
"""

from tallygate.accounting import lenient_codes
from tallygate.accounting.problem import Code

_MONITOR_CLAIM = (
    "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: monitor, namespace: ops}\nspec:\n"
    "  devices:\n    requests:\n    - name: every\n      exactly: {deviceClassName: gpu.example.com, "
    "allocationMode: All, adminAccess: true}"
)

REQUEST_NOT_LIMIT = Code(
    number="TG010",
    slug="request-not-limit",
    summary="Request and limit differ for a resource that cannot be overcommitted.",
    explanation="Extended resources and huge pages are handed out whole: what is requested is what the container "
    "gets, so the "
    "limit must say the same.",
    invalid_example="resources:\n  requests:\n    nvidia.com/gpu: 1\n  limits:\n    nvidia.com/gpu: 2",
    valid_example="resources:\n  limits:\n    nvidia.com/gpu: 2",
)
REQUEST_ABOVE_LIMIT = Code(
    number="TG011",
    slug="request-above-limit",
    summary="A request is larger than its limit.",
    explanation="A limit is the maximum that a container may use; its request cannot be larger.",
    invalid_example="resources:\n  requests:\n    cpu: 2\n  limits:\n    cpu: 1",
    valid_example="resources:\n  requests:\n    cpu: 1\n  limits:\n    cpu: 2",
)
LIMIT_MISSING = Code(
    number="TG012",
    slug="limit-missing",
    summary="A resource that cannot be overcommitted is requested without a limit.",
    explanation="Kubernetes fills a missing request in from the limit, but not the other way round.",
    invalid_example="resources:\n  requests:\n    nvidia.com/gpu: 1",
    valid_example="resources:\n  limits:\n    nvidia.com/gpu: 1",
)
NOT_WHOLE_PAGES = Code(
    number="TG013",
    slug="not-whole-pages",
    summary="An amount of huge pages is no multiple of the page size.",
    explanation="Huge pages are handed out in pages; the size is the one in the name.",
    invalid_example="resources:\n  limits:\n    memory: 1Gi\n    hugepages-2Mi: 3Mi",
    valid_example="resources:\n  limits:\n    memory: 1Gi\n    hugepages-2Mi: 4Mi",
)
HUGE_PAGES_ALONE = Code(
    number="TG014",
    slug="huge-pages-alone",
    summary="Huge pages are requested without cpu or memory.",
    explanation="Kubernetes wants cpu or memory in addition to them, so that the container is not best-effort.",
    invalid_example="resources:\n  limits:\n    hugepages-2Mi: 4Mi",
    valid_example="resources:\n  limits:\n    memory: 1Gi\n    hugepages-2Mi: 4Mi",
)
EPHEMERAL_RESOURCES = Code(
    number="TG015",
    slug="ephemeral-resources",
    summary="An ephemeral container sets resources.",
    explanation="Ephemeral containers use what their pod has; nothing can be set aside for them.",
    invalid_example="ephemeralContainers:\n- name: debug\n  resources:\n    limits:\n      cpu: 1",
    valid_example="ephemeralContainers:\n- name: debug",
)
CLAIM_UNNAMED = Code(
    number="TG016",
    slug="claim-unnamed",
    summary="A reference to a resource claim names no claim.",
    explanation="A container refers to an entry of spec.resourceClaims by its name.",
    invalid_example="resources:\n  claims:\n  - request: gpu",
    valid_example="resources:\n  claims:\n  - name: accelerator\n    request: gpu",
)
CLAIM_UNKNOWN = Code(
    number="TG017",
    slug="claim-unknown",
    summary="A container refers to a resource claim that the pod does not have.",
    explanation="The name must be that of an entry of spec.resourceClaims.",
    invalid_example="containers:\n- resources:\n    claims:\n    - name: gpu",
    valid_example="resourceClaims:\n- name: gpu\n  resourceClaimTemplateName: gpu\ncontainers:\n- resources:\n    "
    "claims:\n"
    "    - name: gpu",
)
CLAIM_REPEATED = Code(
    number="TG018",
    slug="claim-repeated",
    summary="A container refers to the same resource claim, or request of it, twice.",
    explanation="A reference without a request stands for all requests of the claim, so that it overlaps with each "
    "of them.",
    invalid_example="resources:\n  claims:\n  - name: gpu\n  - name: gpu\n    request: first",
    valid_example="resources:\n  claims:\n  - name: gpu",
)
CLAIM_REQUEST_MALFORMED = Code(
    number="TG019",
    slug="claim-request-malformed",
    summary="The request of a resource claim reference is no DNS label.",
    explanation="Requests of a claim are named by lower-case letters, digits and '-', 63 at most.",
    invalid_example="resources:\n  claims:\n  - name: gpu\n    request: First_One",
    valid_example="resources:\n  claims:\n  - name: gpu\n    request: first-one",
)
POD_BELOW_CONTAINERS = Code(
    number="TG020",
    slug="pod-below-containers",
    summary="The pod as a whole is given less than its containers need together.",
    explanation="spec.resources replaces the sum of the containers, so it must have room for it.",
    invalid_example="resources:\n  requests:\n    cpu: 1\ncontainers:\n- resources:\n    requests:\n      cpu: 2",
    valid_example="resources:\n  requests:\n    cpu: 2\ncontainers:\n- resources:\n    requests:\n      cpu: 2",
)
CONTAINER_ABOVE_POD = Code(
    number="TG021",
    slug="container-above-pod",
    summary="A container's limit is larger than that of the whole pod.",
    explanation="The limit of the pod applies to all its containers together.",
    invalid_example="resources:\n  limits:\n    cpu: 1\ncontainers:\n- resources:\n    limits:\n      cpu: 2",
    valid_example="resources:\n  limits:\n    cpu: 2\ncontainers:\n- resources:\n    limits:\n      cpu: 2",
)
POD_CLAIMS = Code(
    number="TG022",
    slug="pod-claims",
    summary="spec.resources refers to resource claims.",
    explanation="Only containers can use claims.",
    invalid_example="resourceClaims:\n- name: gpu\n  resourceClaimTemplateName: gpu\nresources:\n  claims:\n  - "
    "name: gpu",
    valid_example="resourceClaims:\n- name: gpu\n  resourceClaimTemplateName: gpu\ncontainers:\n- resources:\n    "
    "claims:\n"
    "    - name: gpu",
)
WINDOWS_POD_RESOURCES = Code(
    number="TG023",
    slug="windows-pod-resources",
    summary="A Windows pod sets spec.resources.",
    explanation="Windows has no way to limit a pod as a whole.",
    invalid_example="os:\n  name: windows\nresources:\n  limits:\n    cpu: 1",
    valid_example="os:\n  name: windows\ncontainers:\n- resources:\n    limits:\n      cpu: 1",
)
_LIMIT_RANGE = (
    "apiVersion: v1\nkind: LimitRange\nmetadata: {name: usual}\n"
    "spec: {limits: [{type: Container, max: {cpu: 2}}]}\n---\n"
    "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
)
OUTSIDE_LIMIT_RANGE = Code(
    number="TG024",
    slug="outside-limit-range",
    summary="A pod is outside of the bounds of a LimitRange of its namespace.",
    explanation="LimitRanger compares the requests and limits of each new pod, after it has filled in defaults, with "
    "min, max and maxLimitRequestRatio, and rejects it. Of a workload it rejects the pods, so that the workload is "
    "stored and stays without them. `check` knows the LimitRanges among the manifests and of a snapshot.",
    invalid_example=_LIMIT_RANGE + "spec: {containers: [{name: a, resources: {limits: {cpu: 4}}}]}",
    valid_example=_LIMIT_RANGE + "spec: {containers: [{name: a, resources: {limits: {cpu: 2}}}]}",
)
ADMIN_ACCESS_UNLABELLED = Code(
    number="TG028",
    slug="admin-access-unlabelled",
    summary="A claim requests admin access to devices in a namespace without the label for it.",
    explanation="Admin access ignores that other pods use the devices. The API server accepts it only in a namespace "
    'with the label `resource.kubernetes.io/admin-access: "true"`, which its administrators set. `check` knows the '
    "labels of namespaces among the manifests and in a snapshot.",
    invalid_example="apiVersion: v1\nkind: Namespace\nmetadata: {name: ops}\n---\n" + _MONITOR_CLAIM,
    valid_example="apiVersion: v1\nkind: Namespace\nmetadata:\n  name: ops\n  labels: "
    '{resource.kubernetes.io/admin-access: "true"}\n---\n' + _MONITOR_CLAIM,
)
OVERHEAD_NOT_OF_CLASS = Code(
    number="TG029",
    slug="overhead-not-of-class",
    summary="A pod has an overhead or a node selector, and its RuntimeClass has another one.",
    explanation="Admission writes the overhead and the node selector of the RuntimeClass into each pod. It rejects a "
    "pod with another value, and one with an overhead that names no class. `check` knows the classes among the "
    "manifests and of a snapshot.",
    invalid_example="apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
    "spec: {overhead: {cpu: 250m}, containers: [{name: a}]}",
    valid_example="apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
    "spec: {runtimeClassName: kata, overhead: {cpu: 250m}, containers: [{name: a}]}",
)
SCOPE_UNKNOWN = Code(
    number="TG030",
    slug="scope-unknown",
    summary="A quota has a scope that Kubernetes does not know.",
    explanation="The scopes are Terminating, NotTerminating, BestEffort, NotBestEffort, PriorityClass, "
    "CrossNamespacePodAffinity and VolumeAttributesClass.",
    invalid_example="scopes: [Batch]",
    valid_example="scopes: [NotTerminating]",
)
SCOPE_UNSUITABLE = Code(
    number="TG031",
    slug="scope-unsuitable",
    summary="A quota's scope cannot apply to a resource that it limits.",
    explanation="Scopes select pods (or volume claims), so they go only with what these are charged for; BestEffort "
    "only with "
    "the number of pods.",
    invalid_example="scopes: [BestEffort]\nhard:\n  requests.cpu: 4",
    valid_example="scopes: [BestEffort]\nhard:\n  pods: 4",
)
SCOPES_CONFLICT = Code(
    number="TG032",
    slug="scopes-conflict",
    summary="A quota has a scope and its opposite.",
    explanation="No pod is both, so the quota would count nothing.",
    invalid_example="scopes: [BestEffort, NotBestEffort]",
    valid_example="scopes: [NotBestEffort]",
)
SCOPE_OPERATOR = Code(
    number="TG033",
    slug="scope-operator",
    summary="The operator or the values of a scope selector do not fit.",
    explanation="In and NotIn need values; Exists and DoesNotExist take none; every scope but PriorityClass and "
    "VolumeAttributesClass takes only Exists.",
    invalid_example="scopeSelector:\n  matchExpressions:\n  - {scopeName: PriorityClass, operator: In}",
    valid_example="scopeSelector:\n  matchExpressions:\n  - {scopeName: PriorityClass, operator: In, values: [batch]}",
)
LIMIT_TYPE_UNKNOWN = Code(
    number="TG040",
    slug="limit-type-unknown",
    summary="An entry of a LimitRange is of an unknown type.",
    explanation="The types are Container, Pod and PersistentVolumeClaim; one of your own needs a domain.",
    invalid_example="limits:\n- type: Deployment",
    valid_example="limits:\n- type: Container",
)
LIMIT_TYPE_REPEATED = Code(
    number="TG041",
    slug="limit-type-repeated",
    summary="A LimitRange has two entries of one type.",
    explanation="Each type has one entry that lists all its resources.",
    invalid_example="limits:\n- {type: Container, max: {cpu: 2}}\n- {type: Container, max: {memory: 1Gi}}",
    valid_example="limits:\n- {type: Container, max: {cpu: 2, memory: 1Gi}}",
)
POD_DEFAULT = Code(
    number="TG042",
    slug="pod-default",
    summary="A LimitRange entry of type Pod has defaults.",
    explanation="Defaults are filled into containers; there is nothing to fill in for a pod.",
    invalid_example="limits:\n- {type: Pod, default: {cpu: 1}}",
    valid_example="limits:\n- {type: Container, default: {cpu: 1}}",
)
STORAGE_BOUND_MISSING = Code(
    number="TG043",
    slug="storage-bound-missing",
    summary="A LimitRange entry for volume claims bounds no storage.",
    explanation="Storage is the one thing that it can bound.",
    invalid_example="limits:\n- {type: PersistentVolumeClaim, max: {cpu: 1}}",
    valid_example="limits:\n- {type: PersistentVolumeClaim, max: {storage: 10Gi}}",
)
BOUNDS_OUT_OF_ORDER = Code(
    number="TG044",
    slug="bounds-out-of-order",
    summary="The bounds and defaults of a LimitRange contradict each other.",
    explanation="min <= defaultRequest <= default <= max must hold for each resource; what is missing of a Container "
    "entry is "
    "filled in from the others first.",
    invalid_example="limits:\n- {type: Container, min: {cpu: 2}, max: {cpu: 1}}",
    valid_example="limits:\n- {type: Container, min: {cpu: 1}, max: {cpu: 2}}",
)
RATIO_IMPOSSIBLE = Code(
    number="TG045",
    slug="ratio-impossible",
    summary="A maxLimitRequestRatio can never be met, or never be exceeded.",
    explanation="A limit is never below its request, so the ratio is at least 1; and it cannot exceed max divided by "
    "min.",
    invalid_example="limits:\n- {type: Container, maxLimitRequestRatio: {cpu: 500m}}",
    valid_example="limits:\n- {type: Container, maxLimitRequestRatio: {cpu: 2}}",
)
DEFAULTS_DIFFER = Code(
    number="TG046",
    slug="defaults-differ",
    summary="Default request and default limit differ for a resource that cannot be overcommitted.",
    explanation="Every container they were filled into would be refused, since its request and limit must be equal.",
    invalid_example="limits:\n- {type: Container, default: {nvidia.com/gpu: 2}, defaultRequest: {nvidia.com/gpu: 1}}",
    valid_example="limits:\n- {type: Container, default: {nvidia.com/gpu: 1}}",
)

RESOURCE_CODES: tuple[Code, ...] = (
    REQUEST_NOT_LIMIT,
    REQUEST_ABOVE_LIMIT,
    LIMIT_MISSING,
    NOT_WHOLE_PAGES,
    HUGE_PAGES_ALONE,
    EPHEMERAL_RESOURCES,
    CLAIM_UNNAMED,
    CLAIM_UNKNOWN,
    CLAIM_REPEATED,
    CLAIM_REQUEST_MALFORMED,
    POD_BELOW_CONTAINERS,
    CONTAINER_ABOVE_POD,
    POD_CLAIMS,
    WINDOWS_POD_RESOURCES,
    OUTSIDE_LIMIT_RANGE,
    ADMIN_ACCESS_UNLABELLED,
    OVERHEAD_NOT_OF_CLASS,
    SCOPE_UNKNOWN,
    SCOPE_UNSUITABLE,
    SCOPES_CONFLICT,
    SCOPE_OPERATOR,
    LIMIT_TYPE_UNKNOWN,
    LIMIT_TYPE_REPEATED,
    POD_DEFAULT,
    STORAGE_BOUND_MISSING,
    BOUNDS_OUT_OF_ORDER,
    RATIO_IMPOSSIBLE,
    DEFAULTS_DIFFER,
)


NAME_MALFORMED = Code(
    number="TG001",
    slug="name-malformed",
    summary="A resource name is not a qualified name.",
    explanation="Resource names are label keys: an optional lower-case DNS domain and a slash, then up to 63 "
    "letters, digits, "
    "'-', '_' and '.', with a letter or digit at both ends. Kubernetes can store and count nothing else.",
    invalid_example="resources:\n  limits:\n    Example.com/my gpu: 1",
    valid_example="resources:\n  limits:\n    example.com/my-gpu: 1",
)
NAME_NOT_ALLOWED = Code(
    number="TG002",
    slug="name-not-allowed",
    summary="A resource name is not one that may stand here.",
    explanation="Names without a domain belong to Kubernetes, which knows a fixed set of them for containers, pods "
    "and quotas. "
    "Resources of your own need a domain.",
    invalid_example="resources:\n  limits:\n    gpu: 1",
    valid_example="resources:\n  limits:\n    nvidia.com/gpu: 1",
)
NAME_NOT_EXTENDED = Code(
    number="TG003",
    slug="name-not-extended",
    summary="A name with a domain is no extended resource.",
    explanation="An extended resource must still be a qualified name when a quota puts `requests.` before it. So it "
    "cannot "
    "begin with `requests.` itself, and its domain has 244 bytes at most.",
    invalid_example="resources:\n  limits:\n    requests.nvidia.com/gpu: 1",
    valid_example="resources:\n  limits:\n    nvidia.com/gpu: 1",
)
UNREADABLE_QUANTITY = Code(
    number="TG004",
    slug="unreadable-quantity",
    summary="A value is not a quantity.",
    explanation="A quantity is a number with an optional suffix: n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an "
    "exponent. Blanks, "
    "thousands separators, and suffixes like K, KB or GiB are none.",
    invalid_example="resources:\n  limits:\n    memory: 1GB",
    valid_example="resources:\n  limits:\n    memory: 1G",
)
NEGATIVE_QUANTITY = Code(
    number="TG005",
    slug="negative-quantity",
    summary="A quantity is below zero.",
    explanation="No amount that is requested, used or allowed can be negative.",
    invalid_example='resources:\n  limits:\n    nvidia.com/gpu: "-1"',
    valid_example="resources:\n  limits:\n    nvidia.com/gpu: 1",
)
NOT_AN_INTEGER = Code(
    number="TG006",
    slug="not-an-integer",
    summary="A resource that is counted in whole units has a fraction.",
    explanation="Extended resources and object counts are whole things to Kubernetes: after rounding up to "
    "thousandths, the "
    "quantity must be an integer. 3, 3000m and 3Ki are; 0.5 and 1500m are not.",
    invalid_example="resources:\n  limits:\n    nvidia.com/gpu: 1500m",
    valid_example="resources:\n  limits:\n    nvidia.com/gpu: 2",
)
TOO_LARGE = Code(
    number="TG007",
    slug="too-large",
    summary="A quantity is larger than Kubernetes can hold.",
    explanation="Kubernetes counts in 64 bits and wraps around beyond 9223372036854775807 without an error: 10E of "
    "something "
    "is 0 to the scheduler.",
    invalid_example="resources:\n  limits:\n    example.com/tokens: 10E",
    valid_example="resources:\n  limits:\n    example.com/tokens: 9E",
)

CODES: tuple[Code, ...] = (
    NAME_MALFORMED,
    NAME_NOT_ALLOWED,
    NAME_NOT_EXTENDED,
    UNREADABLE_QUANTITY,
    NEGATIVE_QUANTITY,
    NOT_AN_INTEGER,
    TOO_LARGE,
    *RESOURCE_CODES,
    *lenient_codes.CODES,
)
