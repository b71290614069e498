"""References of a container to the pod's resource claims.

Source: validateResourceClaimNames in pkg/apis/core/validation/validation.go, v1.36.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable

from webhook.accounting.problem import Problem, Reason
from webhook.accounting.resource_codes import CLAIM_REPEATED, CLAIM_REQUEST_MALFORMED, CLAIM_UNKNOWN, CLAIM_UNNAMED
from webhook.accounting.validation.printing import printed
from webhook.objects.pods import ClaimReference, PodResourceClaim

_LABEL = re.compile(r"[a-z0-9]++(?:-++[a-z0-9]++)*+")
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(?:\.{_LABEL.pattern})++")
_LABEL_LENGTH = 63
_LABEL_DETAIL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


def claim_names(claims: Iterable[PodResourceClaim] | None) -> frozenset[str]:
    """The names that containers may refer to."""
    return frozenset(claim.name for claim in claims or () if claim.name)


def claim_problems(path: str, claims: Iterable[ClaimReference] | None, known: Collection[str]) -> list[Problem]:
    """Everything that is wrong with `resources.claims` at a path."""
    problems: list[Problem] = []
    seen: set[str] = set()
    parts: Counter[str] = Counter()
    for index, claim in enumerate(claims or ()):
        at = f"{path}[{index}]"
        if not claim.name:
            message = "this reference names no claim; give the name of an entry of spec.resourceClaims"
            problems.append(Problem(at, CLAIM_UNNAMED.number, Reason.REQUIRED, message))
            continue
        problems += _reference_problems(at, claim.name, claim.request or "", seen, parts)
        problems += _unknown(at, claim.name, known)
    return problems


def _reference_problems(path: str, name: str, request: str, seen: set[str], parts: Counter[str]) -> list[Problem]:
    """The reference beside those before it; `parts` counts the requests of each claim that were referred to.

    A claim seen whole covers all its requests.
    """
    if name in seen:
        return [_repeated(path, name)]
    key = f"{name}/{request}" if request else name
    problems = _label_problems(f"{path}.request", request) if request else []
    if key in seen:
        problems.append(_repeated(path, key))
    elif request:
        parts[key.partition("/")[0]] += 1
    else:
        problems += [_repeated(path, name)] * parts[name]
    seen.add(key)
    return problems


def _repeated(path: str, key: str) -> Problem:
    message = f"{key!r} is covered by another reference of this container; leave one of them"
    return Problem(path, CLAIM_REPEATED.number, Reason.DUPLICATE, message, "", printed(key))


def _unknown(path: str, name: str, known: Collection[str]) -> list[Problem]:
    if name in known:
        return []
    listed = ", ".join(sorted(known))
    detail = "must be one of the names in pod.spec.resourceClaims" + (f": {listed}" if known else " which is empty")
    has = f"it has {listed}" if known else "it has none"
    message = f"the pod has no claim {name!r} in spec.resourceClaims; {has}"
    return [Problem(path, CLAIM_UNKNOWN.number, Reason.NOT_FOUND, message, detail, printed(name))]


def _label_problems(path: str, request: str) -> list[Problem]:
    """ValidateDNS1123Label."""
    details = []
    if len(request.encode("utf-8", "surrogatepass")) > _LABEL_LENGTH:
        details.append(f"must be no more than {_LABEL_LENGTH} characters")
    if not _LABEL.fullmatch(request):
        details.append("must not contain dots" if _SUBDOMAIN.fullmatch(request) else _LABEL_DETAIL)
    message = f"{request!r} is no DNS label; use lower-case letters, digits and '-', {_LABEL_LENGTH} at most"
    code, value = CLAIM_REQUEST_MALFORMED.number, printed(request)
    return [Problem(path, code, Reason.INVALID, message, detail, value) for detail in details]
