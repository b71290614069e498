"""What a resource name stands for: its family, and Kubernetes' own predicates.

The predicates follow pkg/apis/core/helper/helpers.go, pkg/apis/core/v1/helper/helpers.go and
pkg/scheduler/util/utils.go (v1.36), to the letter: `mykubernetes.io/x` is native to Kubernetes, because the name
contains `kubernetes.io/`. `family` is tallygate's own view, which looks at the domain.
"""

from enum import StrEnum

from webhook.accounting.memory import memoize
from webhook.accounting.name_grammar import find_qualified_name_errors

OPAQUE_PREFIX = "pod.alpha.kubernetes.io/opaque-int-resource-"
"""Names that Kubernetes 1.5 to 1.8 counted in whole units, and still counts, but no longer checks."""

HUGEPAGES_PREFIX = "hugepages-"
ATTACHABLE_VOLUMES_PREFIX = "attachable-volumes-"
REQUESTS_PREFIX = "requests."
LIMITS_PREFIX = "limits."

_KUBERNETES_DOMAIN = "kubernetes.io"
_NATIVE_INFIX = "kubernetes.io/"

_INTEGER_NAMES = frozenset(
    {
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
    }
)


class Family(StrEnum):
    """What a name stands for, in tallygate's words."""

    EXTENDED = "extended"
    """A well-formed name whose domain is not kubernetes.io or beneath it."""
    OPAQUE = "opaque"
    """A name with the opaque prefix."""
    HUGEPAGES = "hugepages"
    """`hugepages-<size>`."""
    ATTACHABLE_VOLUMES = "attachable-volumes"
    """`attachable-volumes-<driver>`."""
    NATIVE = "native"
    """Kubernetes' own: no domain, or kubernetes.io's."""
    MALFORMED = "malformed"
    """A name with a domain that nobody could advertise and a container could not ask for."""


@memoize
def classify_name(name: str) -> Family:
    """The family of a name."""
    if name.startswith(OPAQUE_PREFIX):
        return Family.OPAQUE
    if name.startswith(HUGEPAGES_PREFIX):
        return Family.HUGEPAGES
    if name.startswith(ATTACHABLE_VOLUMES_PREFIX):
        return Family.ATTACHABLE_VOLUMES
    domain, slash, _ = name.partition("/")
    if not slash or domain == _KUBERNETES_DOMAIN or domain.endswith("." + _KUBERNETES_DOMAIN):
        return Family.NATIVE
    return Family.EXTENDED if _is_extended_standard(name) else Family.MALFORMED


def is_countable(name: str) -> bool:
    """Whether it is counted in whole units by tallygate's rules: extended or opaque."""
    return classify_name(name) in {Family.EXTENDED, Family.OPAQUE}


def is_prefixed_native(name: str) -> bool:
    """IsPrefixedNativeResource: it contains `kubernetes.io/`, anywhere."""
    return _NATIVE_INFIX in name


def is_native(name: str) -> bool:
    """IsNativeResource: it has no slash, or contains `kubernetes.io/`."""
    return "/" not in name or is_prefixed_native(name)


@memoize
def is_extended(name: str) -> bool:
    """IsExtendedResourceName: not native, and still a qualified name with `requests.` before it."""
    return not is_native(name) and _is_extended_standard(name)


def is_integer(name: str) -> bool:
    """IsIntegerResourceName: an object count or an extended name; `requests.example.com/gpu` is neither."""
    return name in _INTEGER_NAMES or is_extended(name)


def is_hugepage(name: str) -> bool:
    """IsHugePageResourceName."""
    return name.startswith(HUGEPAGES_PREFIX)


def is_overcommit_allowed(name: str) -> bool:
    """IsOvercommitAllowed: a limit may be larger than the request."""
    return is_native(name) and not is_hugepage(name)


def is_scheduler_scalar(name: str) -> bool:
    """IsScalarResourceName: the scheduler keeps account of it beside cpu, memory and ephemeral-storage."""
    return (
        is_extended(name) or is_hugepage(name) or is_prefixed_native(name) or name.startswith(ATTACHABLE_VOLUMES_PREFIX)
    )


def _is_extended_standard(name: str) -> bool:
    """Whether a quota could name it, so that a domain longer than 244 bytes is too long."""
    return not name.startswith(REQUESTS_PREFIX) and not find_qualified_name_errors(REQUESTS_PREFIX + name)
