"""Admin access to devices: it needs a label of the namespace, as the API server requires it."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tallygate.accounting.validation.claims import requests_admin_access, validate_admin_access
from tallygate.objects.devices import ResourceClaim, ResourceClaimTemplate

_DETAIL = (
    "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"
)


def _request(*, admin_access: bool | None) -> dict[str, Any]:
    exactly = {"deviceClassName": "gpu"} | ({} if admin_access is None else {"adminAccess": admin_access})
    return {"name": "r", "exactly": exactly}


_PLAIN, _ADMIN, _DENIED = _request(admin_access=None), _request(admin_access=True), _request(admin_access=False)
_ALTERNATIVES = {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]}


@pytest.mark.parametrize(
    ("requests", "labels", "expected"),
    [
        pytest.param([_ADMIN], {}, 0, id="no label"),
        pytest.param([_PLAIN, _ADMIN, _ADMIN], {}, 1, id="the first request with admin access is named"),
        pytest.param([_ADMIN], {"resource.kubernetes.io/admin-access": "false"}, 0, id="another value"),
        pytest.param([_ADMIN], {"resource.k8s.io/admin-access": "true"}, 0, id="another label"),
        pytest.param([_ADMIN], {"resource.kubernetes.io/admin-access": "true"}, None, id="the label"),
        pytest.param([_PLAIN, _DENIED, _ALTERNATIVES], {}, None, id="no admin access"),
        pytest.param([], {}, None, id="no request"),
    ],
)
def test_admin_access_needs_a_label_of_the_namespace(
    requests: Sequence[Any], labels: dict[str, str], expected: int | None
) -> None:
    spec = {"devices": {"requests": list(requests)}}
    claim = msgspec.convert({"spec": spec}, ResourceClaim)
    template = msgspec.convert({"spec": {"spec": spec}}, ResourceClaimTemplate)
    for made, prefix in ((claim, "spec"), (template, "spec.spec")):
        assert requests_admin_access(made) is any(each.get("exactly", {}).get("adminAccess") for each in requests)
        problems = validate_admin_access(made, "ops", labels)
        assert [(each.field, each.detail) for each in problems] == (
            [] if expected is None else [(f"{prefix}.devices.requests[{expected}].exactly.adminAccess", _DETAIL)]
        )


@pytest.mark.parametrize("content", [{}, {"spec": {}}, {"spec": {"devices": {}}}], ids=str)
def test_a_claim_without_requests_has_no_admin_access(content: Any) -> None:
    assert validate_admin_access(msgspec.convert(content, ResourceClaim), "ops", {}) == []
    assert validate_admin_access(msgspec.convert({"spec": content}, ResourceClaimTemplate), "ops", {}) == []
