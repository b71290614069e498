"""Validation of ResourceClaims and templates of claims beyond their types: admin access to devices.

Source: AuthorizedForAdmin in pkg/registry/resource/utils.go, v1.37; KEP-5018. The API server reads the namespace.
"""

from collections.abc import Iterator, Mapping

from tallygate.accounting.kubernetes_codes import ADMIN_ACCESS_UNLABELLED
from tallygate.accounting.problem import Problem, Reason
from tallygate.objects.devices import ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate

ADMIN_ACCESS_LABEL = "resource.kubernetes.io/admin-access"
"""The label of namespaces whose claims may have admin access, with the value `true`."""


def requests_admin_access(claim: ResourceClaim | ResourceClaimTemplate) -> bool:
    """Return whether a claim, or a template of claims, requests admin access to devices."""
    return next(_find_admin_access(claim), None) is not None


def validate_admin_access(
    claim: ResourceClaim | ResourceClaimTemplate, namespace: str, labels: Mapping[str, str]
) -> list[Problem]:
    """Return the problem of the first request for admin access in a namespace with these labels, if it lacks its own.

    Only a creation has it: the requests never change.
    """
    field = next(_find_admin_access(claim), None)
    if field is None or labels.get(ADMIN_ACCESS_LABEL) == "true":
        return []
    detail = f"admin access to devices requires the `{ADMIN_ACCESS_LABEL}: true` label on the containing namespace"
    message = f"{detail}: add it to namespace {namespace}, or remove adminAccess"
    return [Problem(field, ADMIN_ACCESS_UNLABELLED, Reason.FORBIDDEN, message, detail)]


def _find_admin_access(claim: ResourceClaim | ResourceClaimTemplate) -> Iterator[str]:
    """Yield the field of each request for admin access; alternatives cannot have it."""
    prefix, spec = "spec", claim.spec
    if isinstance(spec, ResourceClaimSpec) or spec is None:
        claimed = spec
    else:
        prefix, claimed = "spec.spec", spec.spec
    requests = (claimed.devices.requests if claimed and claimed.devices else None) or ()
    for index, request in enumerate(requests):
        if request.exactly is not None and request.exactly.admin_access:
            yield f"{prefix}.devices.requests[{index}].exactly.adminAccess"
