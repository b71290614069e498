"""References of a container to the pod's resource claims.

Source: validateResourceClaimNames in pkg/apis/core/validation/validation.go, v1.36.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable

from webhook.accounting.problem import Problem, Reason
from webhook.accounting.resource_codes import CLAIM_REPEATED, CLAIM_REQUEST_MALFORMED, CLAIM_UNKNOWN, CLAIM_UNNAMED
from webhook.accounting.validation.printing import encode_go_json
from webhook.objects.pods import PodResourceClaim, ResourceClaimReference

_LABEL = re.compile(r"[a-z0-9]++(?:-++[a-z0-9]++)*+")
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(?:\.{_LABEL.pattern})++")
_LABEL_LENGTH = 63
_LABEL_DETAIL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


def list_claim_names(claims: Iterable[PodResourceClaim] | None) -> frozenset[str]:
    """The names that containers may refer to."""
    return frozenset(claim.name for claim in claims or () if claim.name)


def check_claims(
    path: str, claims: Iterable[ResourceClaimReference] | None, claim_names: Collection[str]
) -> list[Problem]:
    """Everything that is wrong with `resources.claims` at a path."""
    problems: list[Problem] = []
    references: set[str] = set()
    request_counts: Counter[str] = Counter()
    for index, claim in enumerate(claims or ()):
        claim_path = f"{path}[{index}]"
        if not claim.name:
            message = "this reference names no claim; give the name of an entry of spec.resourceClaims"
            problems.append(Problem(claim_path, CLAIM_UNNAMED.number, Reason.REQUIRED, message))
            continue
        problems += _check_reference(claim_path, claim.name, claim.request or "", references, request_counts)
        problems += _check_claim_exists(claim_path, claim.name, claim_names)
    return problems


def _check_reference(
    path: str, name: str, request: str, references: set[str], request_counts: Counter[str]
) -> list[Problem]:
    """The reference beside those before it; `parts` counts the requests of each claim that were referred to.

    A claim seen whole covers all its requests.
    """
    if name in references:
        return [_create_repeated_problem(path, name)]
    key = f"{name}/{request}" if request else name
    problems = _check_dns_label(f"{path}.request", request) if request else []
    if key in references:
        problems.append(_create_repeated_problem(path, key))
    elif request:
        request_counts[key.partition("/")[0]] += 1
    else:
        problems += [_create_repeated_problem(path, name)] * request_counts[name]
    references.add(key)
    return problems


def _create_repeated_problem(path: str, key: str) -> Problem:
    message = f"{key!r} is covered by another reference of this container; leave one of them"
    return Problem(path, CLAIM_REPEATED.number, Reason.DUPLICATE, message, "", encode_go_json(key))


def _check_claim_exists(path: str, name: str, claim_names: Collection[str]) -> list[Problem]:
    if name in claim_names:
        return []
    names = ", ".join(sorted(claim_names))
    detail = "must be one of the names in pod.spec.resourceClaims" + (
        f": {names}" if claim_names else " which is empty"
    )
    existing = f"it has {names}" if claim_names else "it has none"
    message = f"the pod has no claim {name!r} in spec.resourceClaims; {existing}"
    return [Problem(path, CLAIM_UNKNOWN.number, Reason.NOT_FOUND, message, detail, encode_go_json(name))]


def _check_dns_label(path: str, request: str) -> list[Problem]:
    """ValidateDNS1123Label."""
    details = []
    if len(request.encode("utf-8", "surrogatepass")) > _LABEL_LENGTH:
        details.append(f"must be no more than {_LABEL_LENGTH} characters")
    if not _LABEL.fullmatch(request):
        details.append("must not contain dots" if _SUBDOMAIN.fullmatch(request) else _LABEL_DETAIL)
    message = f"{request!r} is no DNS label; use lower-case letters, digits and '-', {_LABEL_LENGTH} at most"
    code, value = CLAIM_REQUEST_MALFORMED.number, encode_go_json(request)
    return [Problem(path, code, Reason.INVALID, message, detail, value) for detail in details]
