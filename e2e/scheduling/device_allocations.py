"""The devices of an incoming pod: claims from templates, as their controller creates them, and what is allocated."""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from e2e.errors import ClusterError
from e2e.scheduling.api import Api, Object, RejectedError, drop_managed_fields
from e2e.scheduling.draw.device_claims import LATE

_PAUSE: Final = 0.02  # seconds between polls
_WITHIN: Final = 20.0  # seconds


def create_template_claims(
    api: Api, pod: Object, objects: Sequence[Object], group: Object | None = None
) -> list[Object]:
    """Create the claims of a pod's templates, but of late ones, and return them; set their names in the pod's status.

    A claim that the PodGroup has made is named there, too.

    Raises:
        RejectedError: if the API server rejects a claim, or has rejected its template.
    """
    of_group = {
        each["name"]: name
        for each in (group["spec"].get("resourceClaims", ()) if group is not None else ())
        if group is not None and each in pod["spec"].get("resourceClaims", ())
        for name in [_find_status(group, each["name"])]
    }
    own = [each for each in pod["spec"].get("resourceClaims", ()) if each["name"] not in of_group]
    made = _create_claims(api, pod, own, objects)
    names = {name: each["metadata"]["name"] for name, each in made.items()} | of_group
    _name_claims(api, pod, {name: claim for name, claim in names.items() if claim})
    return list(made.values())


def create_group_claims(api: Api, group: Object, objects: Sequence[Object]) -> list[Object]:
    """Create the claims of a PodGroup's templates, but of late ones, and return them; set their names in its status.

    Raises:
        RejectedError: if the API server rejects a claim.
    """
    missing = {each["metadata"]["name"] for each in objects if each["kind"] == "ResourceClaimTemplate"}
    entries = [
        each for each in group["spec"].get("resourceClaims", ()) if each.get("resourceClaimTemplateName") in missing
    ]
    made = _create_claims(api, group, entries, objects)
    _name_claims(api, group, {name: each["metadata"]["name"] for name, each in made.items()})
    return list(made.values())


def _create_claims(
    api: Api, owner: Object, references: Sequence[Object], objects: Sequence[Object]
) -> dict[str, Object]:
    """Create the claims of templates, and return them by the names of the references."""
    templates = {each["metadata"]["name"]: each for each in objects if each["kind"] == "ResourceClaimTemplate"}
    reference_to_owner = {"controller": True} | {
        **{key: owner[key] for key in ("apiVersion", "kind")},
        **{key: owner["metadata"][key] for key in ("name", "uid")},
    }
    made = dict[str, Object]()
    for reference in references:
        if "resourceClaimTemplateName" in reference:
            template = templates.get(reference["resourceClaimTemplateName"])
            if template is None:
                raise RejectedError(f"the template {reference['resourceClaimTemplateName']} was rejected")
            if LATE in template["metadata"].get("annotations", {}):
                continue
            metadata = {
                "name": f"{owner['metadata']['name']}-{reference['name']}",
                "namespace": owner["metadata"]["namespace"],
                "ownerReferences": [reference_to_owner],
            }
            claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata}
            made[reference["name"]] = drop_managed_fields(api.make(claim | template["spec"]))
    return made


def _name_claims(api: Api, owner: Object, names: Mapping[str, str]) -> None:
    """Set the names of claims in the status of their owner."""
    if names:
        statuses = [{"name": name, "resourceClaimName": claim} for name, claim in names.items()]
        status = api.put_status(owner | {"status": owner.get("status", {}) | {"resourceClaimStatuses": statuses}})
        owner["metadata"], owner["status"] = status["metadata"], status["status"]


def _find_status(group: Object, name: str) -> str:
    """Return the claim of an entry of a PodGroup; empty if none was made."""
    statuses = group.get("status", {}).get("resourceClaimStatuses", ())
    return next((str(each["resourceClaimName"]) for each in statuses if each["name"] == name), "")


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
