"""The reviews of requests for claims, as the API server sends them to the gate."""

import json

from tallygate.admission.evaluate import SCHEDULER_USER
from tallygate.admission.request import CREATE, UPDATE, AdmissionRequest, UserInfo
from tests.gate.simulation.requests import Request

_TENANT = UserInfo("a tenant")


def create_review(request: Request) -> AdmissionRequest:
    """Return the review of a request for a claim."""
    claim, old = request.claim, request.old_claim
    assert claim is not None
    return AdmissionRequest(
        kind="ResourceClaim",
        group="resource.k8s.io",
        operation=CREATE if old is None else UPDATE,
        object=json.dumps(claim.to_object()).encode(),
        old_object=None if old is None else json.dumps(old.to_object()).encode(),
        subresource="" if old is None else "status",
        namespace=claim.namespace,
        name=claim.name,
        user=UserInfo(SCHEDULER_USER) if claim.made_for or old is not None else _TENANT,
    )
