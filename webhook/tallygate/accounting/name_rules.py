"""Rules for resource names in each context.

Follows `validateResourceName`, `validateContainerResourceName`, `validatePodResourceName`,
`ValidateResourceQuotaResourceName` and `validateLimitRangeResourceName` (pkg/apis/core/validation/validation.go,
v1.36).
"""

from dataclasses import dataclass
from enum import StrEnum

from tallygate.accounting import names
from tallygate.accounting.kubernetes_codes import NAME_MALFORMED, NAME_NOT_ALLOWED, NAME_NOT_EXTENDED
from tallygate.accounting.problem import Reason
from tallygate.accounting.result_cache import memoize

_CONTAINER_NAMES = frozenset({"cpu", "ephemeral-storage", "memory"})
_POD_NAMES = frozenset({"cpu", "memory"})
_QUOTA_NAMES = frozenset(
    {
        "configmaps",
        "cpu",
        "ephemeral-storage",
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "memory",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
        "requests.storage",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
    }
)
_STANDARD_NAMES = _QUOTA_NAMES | {"storage"}
_NODE_NAMES = _CONTAINER_NAMES | {"pods", "storage"}
_MAX_QUOTED_LENGTH = 100
_QUOTA_HUGEPAGES = (names.HUGEPAGES_PREFIX, names.REQUESTS_PREFIX + names.HUGEPAGES_PREFIX)


class NameContext(StrEnum):
    """The kind of field that contains a resource name."""

    CONTAINER = "container"
    """`resources` of a container of any kind."""
    POD = "pod"
    """`spec.resources`."""
    OVERHEAD = "overhead"
    """`spec.overhead`, with the rules of containers."""
    NODE = "node"
    """`status.capacity` and `status.allocatable`, for which Kubernetes has no rule."""
    QUOTA = "quota"
    """`spec.hard` of a ResourceQuota, and its status."""
    LIMIT_RANGE = "limit-range"
    """An entry of a LimitRange of type Container or Pod, with the rules of containers."""
    LIMIT_RANGE_OTHER = "limit-range-other"
    """An entry of a LimitRange of another type."""


@dataclass(frozen=True, slots=True)
class NameProblem:
    """The reason that a name is not allowed in a context: `detail` in Kubernetes' words, `message` in tallygate's."""

    code: str
    reason: Reason
    detail: str
    message: str


def find_name_problems(name: str, context: NameContext) -> tuple[NameProblem, ...]:
    """Return every problem that the API server reports for a name in a context, in its order."""
    if context is NameContext.NODE or (context is not NameContext.POD and names.is_usual_extended(name)):
        return ()
    return _find_other_problems(name, context)


@memoize
def _find_other_problems(name: str, context: NameContext) -> tuple[NameProblem, ...]:
    general_problems = _check_any_context(name)
    if context is NameContext.POD:
        return general_problems or _check_pod_name(name)
    if context is NameContext.QUOTA:
        return (*general_problems, *_check_quota_name(name))
    return (
        general_problems
        if context is NameContext.LIMIT_RANGE_OTHER
        else (*general_problems, *_check_container_name(name))
    )


def is_standard_quota_name(name: str) -> bool:
    """Return whether a name is one of Kubernetes' own for a quota, which scopes are checked against.

    Source: IsStandardQuotaResourceName.
    """
    return name in _QUOTA_NAMES or name.startswith(_QUOTA_HUGEPAGES)


@memoize
def find_advertised_name_problems(name: str) -> tuple[NameProblem, ...]:
    """Return the problems of a resource name in a node's status: no pod could request it.

    Kubernetes stores any name in a node's status; this rule is tallygate's.
    """
    if name in _NODE_NAMES or name.startswith(names.ATTACHABLE_VOLUMES_PREFIX):
        return ()
    return find_name_problems(name, NameContext.CONTAINER)


def _check_any_context(name: str) -> tuple[NameProblem, ...]:
    """Apply the rules of every context (validateResourceName)."""
    details = names.find_qualified_name_errors(name)
    if details:
        return tuple(
            _create_name_problem(NAME_MALFORMED, detail, _describe_malformed(name, detail)) for detail in details
        )
    if "/" in name or name in _STANDARD_NAMES or name.startswith(_QUOTA_HUGEPAGES):
        return ()
    return (
        _create_name_problem(
            NAME_NOT_ALLOWED, "must be a standard resource type or fully qualified", _describe_unknown(name)
        ),
    )


def _check_container_name(name: str) -> tuple[NameProblem, ...]:
    """Apply the rules that validateContainerResourceName adds."""
    if "/" not in name:
        if name in _CONTAINER_NAMES or names.is_hugepage(name):
            return ()
        return (
            _create_name_problem(
                NAME_NOT_ALLOWED, "must be a standard resource for containers", _describe_not_for_containers(name)
            ),
        )
    if names.is_native(name) or names.is_extended(name):
        return ()
    return (
        _create_name_problem(
            NAME_NOT_EXTENDED, "doesn't follow extended resource name standard", _describe_not_extended(name)
        ),
    )


def _check_pod_name(name: str) -> tuple[NameProblem, ...]:
    """Apply the rules that validatePodResourceName adds, to a name without other problems."""
    if name in _POD_NAMES or names.is_hugepage(name):
        return ()
    message = (
        f"{name!r} cannot be set for a pod as a whole, only cpu, memory and hugepages-<size>; set it on a container"
    )
    detail = 'supported values: "cpu", "hugepages-", "memory"'
    return (NameProblem(NAME_NOT_ALLOWED, Reason.NOT_SUPPORTED, detail, message),)


def _check_quota_name(name: str) -> tuple[NameProblem, ...]:
    """Apply the rules that ValidateResourceQuotaResourceName adds."""
    if "/" in name or is_standard_quota_name(name):
        return ()
    message = f"a quota cannot count {_quote(name)}; for a resource with a domain write requests.<domain>/<name>"
    return (_create_name_problem(NAME_NOT_ALLOWED, "must be a standard resource for quota", message),)


def _create_name_problem(code: str, detail: str, message: str) -> NameProblem:
    return NameProblem(code, Reason.INVALID, detail, message)


def _describe_malformed(name: str, detail: str) -> str:
    if "label key" in detail:
        return f"the resource name {_quote(name)} has more than one slash; write <domain>/<name>, as in example.com/gpu"
    domain, _, rest = name.rpartition("/")
    part, text = ("domain", domain) if detail.startswith("prefix") else ("name", rest)
    if "non-empty" in detail:
        return f"the resource name {_quote(name)} has no {part}; write <domain>/<name>, as in example.com/gpu"
    if "no more than" in detail:
        return f"the {part} of this resource name is too long: it {detail.partition(' part ')[2]}"
    if part == "domain":
        return (
            f"{_quote(text)} is not a domain for a resource name; use lower-case letters, digits, '-' and '.', with a "
            "letter or digit at both ends of each part, as in example.com"
        )
    return (
        f"{_quote(text)} is not a name for a resource; use letters, digits, '-', '_' and '.', with a letter or digit "
        "at both ends, as in gpu or mig-1g.5gb"
    )


def _describe_unknown(name: str) -> str:
    """Return the message for a name without a domain that Kubernetes does not know."""
    return f"Kubernetes knows no resource {_quote(name)}; one of your own needs a domain, as in example.com/gpu"


def _describe_not_for_containers(name: str) -> str:
    """Return the message for a name without a domain that a container cannot request."""
    bare = name.removeprefix(names.REQUESTS_PREFIX).removeprefix(names.LIMITS_PREFIX)
    if bare in _CONTAINER_NAMES:
        return f"{name!r} is a name for quotas; a container requests {bare!r}"
    return (
        f"a container cannot request {_quote(name)}, only cpu, memory, ephemeral-storage, hugepages-<size> and "
        "names with a domain, as in example.com/gpu"
    )


def _describe_not_extended(name: str) -> str:
    """Return the message for a name with a domain that is no extended resource."""
    bare = name.removeprefix(names.REQUESTS_PREFIX)
    if bare != name:
        return f"{_quote(name)} is a name for quotas; a container requests {_quote(bare)}"
    if not names.find_qualified_name_errors(name):
        return "the domain of an extended resource has 244 bytes at most, so that a quota can put 'requests.' before it"
    return f"{_quote(name)} is not a name for an extended resource; write <domain>/<name>, as in example.com/gpu"


def _quote(name: str) -> str:
    """Return a name as messages quote it: a name that is too long to be read is cut."""
    return repr(name if len(name) <= _MAX_QUOTED_LENGTH else name[:_MAX_QUOTED_LENGTH] + "…")
