"""The devices of an incoming pod: claims from templates, as their controller creates them, and what is allocated."""

import time
from collections.abc import Sequence
from typing import Final

from e2e.errors import ClusterError
from e2e.scheduling.api import Api, Object, RejectedError, drop_managed_fields
from e2e.scheduling.draw.device_claims import LATE

_PAUSE: Final = 0.02  # seconds between polls
_WITHIN: Final = 20.0  # seconds


def create_template_claims(api: Api, pod: Object, objects: Sequence[Object]) -> list[Object]:
    """Create the claims of a pod's templates, but of late ones, and return them; set their names in the pod's status.

    Raises:
        RejectedError: if the API server rejects a claim, or has rejected its template.
    """
    namespace = pod["metadata"]["namespace"]
    templates = {each["metadata"]["name"]: each for each in objects if each["kind"] == "ResourceClaimTemplate"}
    owner = {"apiVersion": "v1", "kind": "Pod", "controller": True} | {
        key: pod["metadata"][key] for key in ("name", "uid")
    }
    statuses, made = [], []
    for reference in pod["spec"].get("resourceClaims", ()):
        if "resourceClaimTemplateName" in reference:
            template = templates.get(reference["resourceClaimTemplateName"])
            if template is None:
                raise RejectedError(f"the template {reference['resourceClaimTemplateName']} was rejected")
            if LATE in template["metadata"].get("annotations", {}):
                continue
            name = f"{pod['metadata']['name']}-{reference['name']}"
            metadata = {"name": name, "namespace": namespace, "ownerReferences": [owner]}
            claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata}
            made.append(drop_managed_fields(api.make(claim | template["spec"])))
            statuses.append({"name": reference["name"], "resourceClaimName": name})
    if made:
        status = api.put_status(pod | {"status": pod["status"] | {"resourceClaimStatuses": statuses}})
        pod["metadata"], pod["status"] = status["metadata"], status["status"]
    return made


def list_allocations(api: Api, pod: Object, before: Sequence[Object]) -> dict[str, list[Object]]:
    """Return the results of the claims of a pod that had no devices before, by claim."""
    had = {_key(each) for each in before if each["kind"] == "ResourceClaim" and "allocation" in each.get("status", {})}
    return {
        each["metadata"]["name"]: list(_list_results(each))
        for each in _list_claims(api, pod)
        if _key(each) not in had and "allocation" in each.get("status", {})
    }


def waits_for_driver(api: Api, pod: Object) -> bool:
    """Return whether the binding of a nominated pod waits for conditions of a device; False once it is decided.

    Raises:
        ClusterError: if neither is the case in time.
    """
    deadline = time.monotonic() + _WITHIN
    while time.monotonic() < deadline:
        now = api.get(pod)
        if now["spec"].get("nodeName") or any(
            each["type"] == "PodScheduled" and each["status"] == "False" for each in now["status"].get("conditions", ())
        ):
            return False
        claims = _list_claims(api, pod)
        is_reserved = all(_is_reserved(each, pod) for each in claims)
        if is_reserved and any("bindingConditions" in result for each in claims for result in _list_results(each)):
            return True
        time.sleep(_PAUSE)
    raise ClusterError(f"the pod is neither bound nor rejected: {now}")


def _list_claims(api: Api, pod: Object) -> list[Object]:
    names = {each["name"]: each.get("resourceClaimName") for each in pod["spec"].get("resourceClaims", ())}
    names |= {each["name"]: each["resourceClaimName"] for each in pod["status"].get("resourceClaimStatuses", ())}
    return [
        each
        for each in api.list_objects("ResourceClaim")
        if each["metadata"]["namespace"] == pod["metadata"]["namespace"]
        and (
            each["metadata"]["name"] in names.values()
            or (
                _is_special(each)
                and any(owner["uid"] == pod["metadata"]["uid"] for owner in each["metadata"].get("ownerReferences", ()))
            )
        )
    ]


def _list_results(claim: Object) -> Sequence[Object]:
    results: Sequence[Object] = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    return results


def _is_reserved(claim: Object, pod: Object) -> bool:
    return any(each["uid"] == pod["metadata"]["uid"] for each in claim.get("status", {}).get("reservedFor", ()))


def _is_special(claim: Object) -> bool:
    annotations = claim["metadata"].get("annotations", {})
    return bool(annotations.get("resource.kubernetes.io/extended-resource-claim") == "true")


def _key(it: Object) -> tuple[str, str]:
    return it["metadata"]["namespace"], it["metadata"]["name"]
