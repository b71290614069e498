"""TG01x to TG04x: what Kubernetes refuses in the resources of containers, pods, quotas and LimitRanges."""

from webhook.accounting.problem import Code

REQUEST_NOT_LIMIT = Code(
    number="TG010",
    slug="request-not-limit",
    what="Request and limit differ for a resource that cannot be overcommitted.",
    why="Extended resources and huge pages are handed out whole: what is requested is what the container gets, so the "
    "limit must say the same.",
    fails="resources:\n  requests:\n    nvidia.com/gpu: 1\n  limits:\n    nvidia.com/gpu: 2",
    passes="resources:\n  limits:\n    nvidia.com/gpu: 2",
)
REQUEST_ABOVE_LIMIT = Code(
    number="TG011",
    slug="request-above-limit",
    what="A request is larger than its limit.",
    why="A limit is the most a container may use; it cannot be promised more than that.",
    fails="resources:\n  requests:\n    cpu: 2\n  limits:\n    cpu: 1",
    passes="resources:\n  requests:\n    cpu: 1\n  limits:\n    cpu: 2",
)
LIMIT_MISSING = Code(
    number="TG012",
    slug="limit-missing",
    what="A resource that cannot be overcommitted is requested without a limit.",
    why="Kubernetes fills a missing request in from the limit, but not the other way round.",
    fails="resources:\n  requests:\n    nvidia.com/gpu: 1",
    passes="resources:\n  limits:\n    nvidia.com/gpu: 1",
)
NOT_WHOLE_PAGES = Code(
    number="TG013",
    slug="not-whole-pages",
    what="An amount of huge pages is no multiple of the page size.",
    why="Huge pages are handed out in pages; the size is the one in the name.",
    fails="resources:\n  limits:\n    memory: 1Gi\n    hugepages-2Mi: 3Mi",
    passes="resources:\n  limits:\n    memory: 1Gi\n    hugepages-2Mi: 4Mi",
)
HUGE_PAGES_ALONE = Code(
    number="TG014",
    slug="huge-pages-alone",
    what="Huge pages are asked for without cpu or memory.",
    why="Kubernetes wants cpu or memory beside them, so that the container is not best-effort.",
    fails="resources:\n  limits:\n    hugepages-2Mi: 4Mi",
    passes="resources:\n  limits:\n    memory: 1Gi\n    hugepages-2Mi: 4Mi",
)
EPHEMERAL_RESOURCES = Code(
    number="TG015",
    slug="ephemeral-resources",
    what="An ephemeral container sets resources.",
    why="Ephemeral containers use what their pod has; nothing can be set aside for them.",
    fails="ephemeralContainers:\n- name: debug\n  resources:\n    limits:\n      cpu: 1",
    passes="ephemeralContainers:\n- name: debug",
)
CLAIM_UNNAMED = Code(
    number="TG016",
    slug="claim-unnamed",
    what="A reference to a resource claim names no claim.",
    why="A container refers to an entry of spec.resourceClaims by its name.",
    fails="resources:\n  claims:\n  - request: gpu",
    passes="resources:\n  claims:\n  - name: accelerator\n    request: gpu",
)
CLAIM_UNKNOWN = Code(
    number="TG017",
    slug="claim-unknown",
    what="A container refers to a resource claim that the pod does not have.",
    why="The name must be that of an entry of spec.resourceClaims.",
    fails="containers:\n- resources:\n    claims:\n    - name: gpu",
    passes="resourceClaims:\n- name: gpu\n  resourceClaimTemplateName: gpu\ncontainers:\n- resources:\n    claims:\n"
    "    - name: gpu",
)
CLAIM_REPEATED = Code(
    number="TG018",
    slug="claim-repeated",
    what="A container refers to the same resource claim, or request of it, twice.",
    why="A reference without a request stands for all requests of the claim, so that it overlaps with each of them.",
    fails="resources:\n  claims:\n  - name: gpu\n  - name: gpu\n    request: first",
    passes="resources:\n  claims:\n  - name: gpu",
)
CLAIM_REQUEST_MALFORMED = Code(
    number="TG019",
    slug="claim-request-malformed",
    what="The request of a resource claim reference is no DNS label.",
    why="Requests of a claim are named by lower-case letters, digits and '-', 63 at most.",
    fails="resources:\n  claims:\n  - name: gpu\n    request: First_One",
    passes="resources:\n  claims:\n  - name: gpu\n    request: first-one",
)
POD_BELOW_CONTAINERS = Code(
    number="TG020",
    slug="pod-below-containers",
    what="The pod as a whole is given less than its containers need together.",
    why="spec.resources replaces the sum of the containers, so it must have room for it.",
    fails="resources:\n  requests:\n    cpu: 1\ncontainers:\n- resources:\n    requests:\n      cpu: 2",
    passes="resources:\n  requests:\n    cpu: 2\ncontainers:\n- resources:\n    requests:\n      cpu: 2",
)
CONTAINER_ABOVE_POD = Code(
    number="TG021",
    slug="container-above-pod",
    what="A container's limit is larger than that of the whole pod.",
    why="The pod's limit holds for all its containers together.",
    fails="resources:\n  limits:\n    cpu: 1\ncontainers:\n- resources:\n    limits:\n      cpu: 2",
    passes="resources:\n  limits:\n    cpu: 2\ncontainers:\n- resources:\n    limits:\n      cpu: 2",
)
POD_CLAIMS = Code(
    number="TG022",
    slug="pod-claims",
    what="spec.resources refers to resource claims.",
    why="Only containers can use claims.",
    fails="resourceClaims:\n- name: gpu\n  resourceClaimTemplateName: gpu\nresources:\n  claims:\n  - name: gpu",
    passes="resourceClaims:\n- name: gpu\n  resourceClaimTemplateName: gpu\ncontainers:\n- resources:\n    claims:\n"
    "    - name: gpu",
)
WINDOWS_POD_RESOURCES = Code(
    number="TG023",
    slug="windows-pod-resources",
    what="A Windows pod sets spec.resources.",
    why="Windows has no way to limit a pod as a whole.",
    fails="os:\n  name: windows\nresources:\n  limits:\n    cpu: 1",
    passes="os:\n  name: windows\ncontainers:\n- resources:\n    limits:\n      cpu: 1",
)
SCOPE_UNKNOWN = Code(
    number="TG030",
    slug="scope-unknown",
    what="A quota has a scope that Kubernetes does not know.",
    why="The scopes are Terminating, NotTerminating, BestEffort, NotBestEffort, PriorityClass, "
    "CrossNamespacePodAffinity and VolumeAttributesClass.",
    fails="scopes: [Batch]",
    passes="scopes: [NotTerminating]",
)
SCOPE_UNSUITABLE = Code(
    number="TG031",
    slug="scope-unsuitable",
    what="A quota's scope cannot apply to a resource that it limits.",
    why="Scopes select pods (or volume claims), so they go only with what these are charged for; BestEffort only with "
    "the number of pods.",
    fails="scopes: [BestEffort]\nhard:\n  requests.cpu: 4",
    passes="scopes: [BestEffort]\nhard:\n  pods: 4",
)
SCOPES_CONFLICT = Code(
    number="TG032",
    slug="scopes-conflict",
    what="A quota has a scope and its opposite.",
    why="No pod is both, so the quota would count nothing.",
    fails="scopes: [BestEffort, NotBestEffort]",
    passes="scopes: [NotBestEffort]",
)
SCOPE_OPERATOR = Code(
    number="TG033",
    slug="scope-operator",
    what="The operator or the values of a scope selector do not fit.",
    why="In and NotIn need values; Exists and DoesNotExist take none; every scope but PriorityClass and "
    "VolumeAttributesClass takes only Exists.",
    fails="scopeSelector:\n  matchExpressions:\n  - {scopeName: PriorityClass, operator: In}",
    passes="scopeSelector:\n  matchExpressions:\n  - {scopeName: PriorityClass, operator: In, values: [batch]}",
)
LIMIT_TYPE_UNKNOWN = Code(
    number="TG040",
    slug="limit-type-unknown",
    what="An entry of a LimitRange is of an unknown type.",
    why="The types are Container, Pod and PersistentVolumeClaim; one of your own needs a domain.",
    fails="limits:\n- type: Deployment",
    passes="limits:\n- type: Container",
)
LIMIT_TYPE_REPEATED = Code(
    number="TG041",
    slug="limit-type-repeated",
    what="A LimitRange has two entries of one type.",
    why="Each type has one entry that lists all its resources.",
    fails="limits:\n- {type: Container, max: {cpu: 2}}\n- {type: Container, max: {memory: 1Gi}}",
    passes="limits:\n- {type: Container, max: {cpu: 2, memory: 1Gi}}",
)
POD_DEFAULT = Code(
    number="TG042",
    slug="pod-default",
    what="A LimitRange entry of type Pod has defaults.",
    why="Defaults are filled into containers; there is nothing to fill in for a pod.",
    fails="limits:\n- {type: Pod, default: {cpu: 1}}",
    passes="limits:\n- {type: Container, default: {cpu: 1}}",
)
STORAGE_BOUND_MISSING = Code(
    number="TG043",
    slug="storage-bound-missing",
    what="A LimitRange entry for volume claims bounds no storage.",
    why="Storage is the one thing that it can bound.",
    fails="limits:\n- {type: PersistentVolumeClaim, max: {cpu: 1}}",
    passes="limits:\n- {type: PersistentVolumeClaim, max: {storage: 10Gi}}",
)
BOUNDS_OUT_OF_ORDER = Code(
    number="TG044",
    slug="bounds-out-of-order",
    what="The bounds and defaults of a LimitRange contradict each other.",
    why="min <= defaultRequest <= default <= max must hold for each resource; what is missing of a Container entry is "
    "filled in from the others first.",
    fails="limits:\n- {type: Container, min: {cpu: 2}, max: {cpu: 1}}",
    passes="limits:\n- {type: Container, min: {cpu: 1}, max: {cpu: 2}}",
)
RATIO_IMPOSSIBLE = Code(
    number="TG045",
    slug="ratio-impossible",
    what="A maxLimitRequestRatio can never be met, or never be exceeded.",
    why="A limit is never below its request, so the ratio is at least 1; and it cannot exceed max divided by min.",
    fails="limits:\n- {type: Container, maxLimitRequestRatio: {cpu: 500m}}",
    passes="limits:\n- {type: Container, maxLimitRequestRatio: {cpu: 2}}",
)
DEFAULTS_DIFFER = Code(
    number="TG046",
    slug="defaults-differ",
    what="Default request and default limit differ for a resource that cannot be overcommitted.",
    why="Every container they were filled into would be refused, since its request and limit must be equal.",
    fails="limits:\n- {type: Container, default: {nvidia.com/gpu: 2}, defaultRequest: {nvidia.com/gpu: 1}}",
    passes="limits:\n- {type: Container, default: {nvidia.com/gpu: 1}}",
)

CODES: tuple[Code, ...] = (
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
