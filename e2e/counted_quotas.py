"""ResourceQuotas of a cluster that have counted the stored pods."""

import json
from collections.abc import Iterable
from functools import partial

import msgspec

from e2e.api import Api, Object
from e2e.waiting import until
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.resource_quota import compute_quota_charge, is_in_scope
from tallygate.objects.core import Pod, PodSpec, ResourceQuotaSpec

_WITHIN = 240.0  # seconds


def wait_for_count(client: Api, quotas: Iterable[Object]) -> None:
    """Wait until each quota has counted the stored pods of its namespace.

    Raises:
        ClusterError: if it takes too long.
    """
    for quota in quotas:
        name = quota["metadata"]["name"]
        until(f"the quota {name} is counted", partial(_is_counted, client, quota), _WITHIN)


def _is_counted(client: Api, quota: Object) -> bool:
    used = _find_used(client, quota)
    return used is not None and {key: Quantity.parse(text) for key, text in used.items()} == _compute_used(
        client, quota
    )


def _find_used(client: Api, quota: Object) -> Object | None:
    """Return the used amounts of a quota, None before it is computed."""
    meta = quota["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/resourcequotas/{meta['name']}"
    status: Object = client.get(path).get("status", {})
    return status.get("used") if status.get("hard", {}).keys() == quota["spec"]["hard"].keys() else None


def _compute_used(client: Api, quota: Object) -> dict[str, Quantity]:
    """Return what the stored pods of the namespace of a quota use of it."""
    spec = msgspec.json.decode(json.dumps(quota["spec"]), type=ResourceQuotaSpec)
    used = {key: Quantity.from_int(0) for key in quota["spec"]["hard"]}
    for stored in client.items(f"/api/v1/namespaces/{quota['metadata']['namespace']}/pods"):
        pod = msgspec.json.decode(json.dumps(stored), type=Pod)
        if is_in_scope(spec, pod.spec or PodSpec(), is_across=None):
            charge = compute_quota_charge(pod, None)
            used = {key: amount + charge[key] if key in charge else amount for key, amount in used.items()}
    return used
