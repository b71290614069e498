"""Qualified names: what every resource name, label key and limit type must be.

Follows `IsLabelKey` and `IsDNS1123Subdomain` (apimachinery pkg/api/validate/content/kube.go and dns.go, v1.36), whose
words these are. Lengths count bytes, as Go's do.
"""

import re

from webhook.accounting.memory import memoize

_NAME_FORM = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_DOMAIN_FORM = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_MAX_NAME = 63
_MAX_DOMAIN = 253

# The same languages as the two forms, in a shape that is matched in one pass.
_NAME = re.compile(r"[A-Za-z0-9](?:[-_.]*+[A-Za-z0-9]++)*+")
_DOMAIN = re.compile(r"(?:[a-z0-9]++(?:-++[a-z0-9]++)*+)(?:\.[a-z0-9]++(?:-++[a-z0-9]++)*+)*+")

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


@memoize
def find_qualified_name_errors(name: str) -> tuple[str, ...]:
    """Everything that keeps a name from being a qualified name (`[domain/]name`), in Kubernetes' words."""
    parts = name.split("/")
    if len(parts) > 2:  # noqa: PLR2004 - a domain and a name
        return (_TWO_SLASHES,)
    domain_errors = _find_domain_errors(parts[0]) if len(parts) > 1 else ()
    return (*domain_errors, *_find_name_part_errors(parts[-1]))


def _find_domain_errors(domain: str) -> tuple[str, ...]:
    """Faults of what stands before the slash."""
    if not domain:
        return ("prefix part must be non-empty",)
    length_errors = (
        (f"prefix part must be no more than {_MAX_DOMAIN} bytes",) if _count_bytes(domain) > _MAX_DOMAIN else ()
    )
    return (*length_errors, *(() if _DOMAIN.fullmatch(domain) else (_BAD_DOMAIN,)))


def _find_name_part_errors(name: str) -> tuple[str, ...]:
    """Faults of what stands after the slash, or alone."""
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
    """Bytes of UTF-8. A lone surrogate, which JSON can spell, is U+FFFD to Go, which has three bytes as well."""
    return len(text.encode("utf-8", "surrogatepass"))
