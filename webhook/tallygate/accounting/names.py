"""Resource names: qualified names, families, and Kubernetes' own predicates.

Every resource name, label key and limit type must be a qualified name. The check follows `IsLabelKey` and
`IsDNS1123Subdomain` (apimachinery pkg/api/validate/content/kube.go and dns.go, v1.36), and returns their messages.
Lengths count bytes, as Go's do.

The predicates follow pkg/apis/core/helper/helpers.go, pkg/apis/core/v1/helper/helpers.go and
pkg/scheduler/util/utils.go (v1.36), to the letter: `mykubernetes.io/x` is native to Kubernetes, because the name
contains `kubernetes.io/`. `classify_name` is tallygate's own rule, which reads the domain.
"""

import re
from enum import StrEnum

from tallygate.accounting.result_cache import memoize

_NAME_FORM = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_DOMAIN_FORM = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_MAX_NAME = 63
_MAX_DOMAIN = 253

# The same languages as the two forms, written so that one pass matches them.
_NAME = re.compile(r"[A-Za-z0-9](?:[-_.]*+[A-Za-z0-9]++)*+")
_DOMAIN = re.compile(r"(?:[a-z0-9]++(?:-++[a-z0-9]++)*+)(?:\.[a-z0-9]++(?:-++[a-z0-9]++)*+)*+")

# One pass for the usual extended resource; 244 bytes of domain leave room for `requests.` before it.
_USUAL_EXTENDED = re.compile(
    r"(?!requests\.|hugepages-|attachable-volumes-)(?=[^/]{1,244}/[^/]{1,63}\Z)" + f"{_DOMAIN.pattern}/{_NAME.pattern}"
)

_NAME_RULE = (
    "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME_FORM}')"
)
_TWO_SLASHES = (
    f"a valid label key must {_NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
_BAD_DOMAIN = (
    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
    "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_DOMAIN_FORM}')"
)

OPAQUE_PREFIX = "pod.alpha.kubernetes.io/opaque-int-resource-"
"""Names that Kubernetes 1.5 to 1.8 counted in whole units, and still counts, but no longer checks."""

HUGEPAGES_PREFIX = "hugepages-"
ATTACHABLE_VOLUMES_PREFIX = "attachable-volumes-"
DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Every class of devices has a resource of its own (ResourceDeviceClassPrefix in k8s.io/api resource/v1)."""

DEVICES_SUFFIX = ".deviceclass.resource.k8s.io/devices"
"""The devices of a class, as a key of a quota (ResourceClaimsPerClass in k8s.io/api core/v1)."""

ALLOCATED_MARK = "=allocated "
"""The part between a counted name and the hash of its definition by allocated devices, in a ledger."""

DERIVED_MARK = "=derived "
"""The part between a counted name and the hash of its definition by several resources, in a ledger."""

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
    """The kind of a resource name, in tallygate's words."""

    EXTENDED = "extended"
    """A well-formed name whose domain is neither kubernetes.io nor a subdomain of it."""
    OPAQUE = "opaque"
    """A name with the opaque prefix."""
    HUGEPAGES = "hugepages"
    """`hugepages-<size>`."""
    ATTACHABLE_VOLUMES = "attachable-volumes"
    """`attachable-volumes-<driver>`."""
    NATIVE = "native"
    """A name of Kubernetes: without a domain, or with kubernetes.io or a subdomain of it."""
    MALFORMED = "malformed"
    """A name with a domain that no node could advertise and no container could request."""


COUNTABLE_FAMILIES = frozenset({Family.EXTENDED, Family.OPAQUE})
"""The families of names that tallygate's rules count in whole units."""


@memoize
def find_qualified_name_errors(name: str) -> tuple[str, ...]:
    """Return every reason that a name is not a qualified name (`[domain/]name`), in Kubernetes' words."""
    parts = name.split("/")
    if len(parts) > 2:  # noqa: PLR2004 - a domain and a name
        return (_TWO_SLASHES,)
    domain_errors = _find_domain_errors(parts[0]) if len(parts) > 1 else ()
    return (*domain_errors, *_find_name_part_errors(parts[-1]))


def is_usual_extended(name: str) -> bool:
    """Return whether a name is well-formed and extended; False too for some rare names that are.

    It is for objects with 100,000 names, where caches by name do not help: an exact answer takes five times as long.
    """
    return _USUAL_EXTENDED.fullmatch(name) is not None and _NATIVE_INFIX not in name


def classify_name(name: str) -> Family:
    """Return the family of a name."""
    return Family.EXTENDED if is_usual_extended(name) else _classify_other_name(name)


@memoize
def _classify_other_name(name: str) -> Family:
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
    """Return whether tallygate's rules count a name in whole units: extended or opaque."""
    return classify_name(name) in COUNTABLE_FAMILIES


def is_prefixed_native(name: str) -> bool:
    """Return whether a name contains `kubernetes.io/`, anywhere (IsPrefixedNativeResource)."""
    return _NATIVE_INFIX in name


def is_native(name: str) -> bool:
    """Return whether a name has no slash, or contains `kubernetes.io/` (IsNativeResource)."""
    return "/" not in name or is_prefixed_native(name)


@memoize
def is_extended(name: str) -> bool:
    """Return whether a name is not native, and still qualified with `requests.` before it (IsExtendedResourceName)."""
    return not is_native(name) and _is_extended_standard(name)


def is_integer(name: str) -> bool:
    """Return whether a name is an object count or an extended name (IsIntegerResourceName).

    `requests.example.com/gpu` is neither.
    """
    return name in _INTEGER_NAMES or is_extended(name)


def is_hugepage(name: str) -> bool:
    """Return whether a name has the prefix of huge pages (IsHugePageResourceName)."""
    return name.startswith(HUGEPAGES_PREFIX)


def is_overcommit_allowed(name: str) -> bool:
    """Return whether a limit may be larger than the request (IsOvercommitAllowed)."""
    return is_native(name) and not is_hugepage(name)


def is_scheduler_scalar(name: str) -> bool:
    """Return whether the scheduler counts a name besides cpu, memory and ephemeral-storage (IsScalarResourceName)."""
    return (
        is_extended(name) or is_hugepage(name) or is_prefixed_native(name) or name.startswith(ATTACHABLE_VOLUMES_PREFIX)
    )


def _is_extended_standard(name: str) -> bool:
    """Return whether a quota could name a resource, so that a domain longer than 244 bytes is too long."""
    return not name.startswith(REQUESTS_PREFIX) and not find_qualified_name_errors(REQUESTS_PREFIX + name)


def _find_domain_errors(domain: str) -> tuple[str, ...]:
    if not domain:
        return ("prefix part must be non-empty",)
    length_errors = (
        (f"prefix part must be no more than {_MAX_DOMAIN} bytes",) if _count_bytes(domain) > _MAX_DOMAIN else ()
    )
    return (*length_errors, *(() if _DOMAIN.fullmatch(domain) else (_BAD_DOMAIN,)))


def _find_name_part_errors(name: str) -> tuple[str, ...]:
    length = _count_bytes(name)
    errors = []
    if not length:
        errors.append("name part must be non-empty")
    elif length > _MAX_NAME:
        errors.append(f"name part must be no more than {_MAX_NAME} bytes")
    if not _NAME.fullmatch(name):
        errors.append(f"name part must {_NAME_RULE}")
    return tuple(errors)


def _count_bytes(text: str) -> int:
    """Return the number of bytes in UTF-8.

    A lone surrogate, which JSON can spell, is U+FFFD to Go, which has three bytes as well.
    """
    return len(text.encode("utf-8", "surrogatepass"))
