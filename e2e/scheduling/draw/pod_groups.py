"""PodGroups with their pods, in a drawn cluster: alike or not, with a quorum that some of them may miss."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass

from e2e.scheduling.draw.case import draw_case_from, draw_device_case
from e2e.scheduling.draw.cluster_parts import DrawnCase
from e2e.scheduling.draw.containers import containers
from e2e.scheduling.draw.device_claims import LATE
from e2e.scheduling.draw.dice import Dice
from e2e.scheduling.draw.names import Json

NAME = "group"
HOLD = "example.com/until-all-are-there"
"""The scheduling gate of the first pod, which keeps the group out of the queue until all are there."""

RESERVED = "example.com/reserved"
"""The annotation of a PodGroup for which an earlier cycle has reserved the claims that it names."""

_ABOUT = {
    "resources": 5.0,
    "taints": 1.0,
    "affinity": 2.0,
    "ports": 3.0,
    "spread": 5.0,
    "company": 4.0,
    "preemption": 2.0,
}


@dataclass(frozen=True)
class DrawnGroup:
    """A cluster, the PodGroup, and its new pods in the order of their creation."""

    cluster: DrawnCase
    group: Json
    members: list[Json]


def draw_group(seed: int, number: int) -> DrawnGroup:
    """Return the group of a number."""
    dice = Dice(f"{seed}/{number}/group")
    if dice.chance(0.3):
        cluster = draw_device_case(seed, number)
    else:
        about = frozenset(dice.pick_weighted(_ABOUT) for _ in range(dice.pick_weighted({1: 5, 2: 2})))
        cluster = draw_case_from(Dice(f"{seed}/{number}/group/cluster", about))
    template = cluster.pod
    _make_templates(dice, cluster)
    for field in ("volumes", "schedulingGates"):
        template["spec"].pop(field, None)
    template["spec"]["schedulingGroup"] = {"podGroupName": NAME}
    count = dice.pick_weighted({1: 1, 2: 3, 3: 4, 4: 3, 6: 2})
    members = [_create_member(dice, template, f"m{index}-{number}") for index in range(count)]
    placed = _join(dice, cluster, template) if dice.chance(0.25) else 0
    members[0]["spec"]["schedulingGates"] = [{"name": HOLD}]
    group = _create_group(dice, template, count + placed)
    if entries := list(_draw_claims(dice, template, cluster)):
        group["spec"]["resourceClaims"] = entries
        if dice.chance(0.3):
            group["metadata"]["annotations"] = {RESERVED: ""}
    return DrawnGroup(cluster, group, members)


def _make_templates(dice: Dice, cluster: DrawnCase) -> None:
    """Make templates of half of the claims without devices that the incoming pod names."""
    names = {
        each["metadata"]["name"]: each
        for each in cluster.objects
        if each["kind"] == "ResourceClaim" and "status" not in each and "finalizers" not in each["metadata"]
    }
    for reference in cluster.pod["spec"].get("resourceClaims", ()):
        claim = names.get(reference.get("resourceClaimName"))
        if claim is not None and dice.chance(0.5):
            claim |= {"kind": "ResourceClaimTemplate", "spec": {"spec": claim["spec"]}}
            reference["resourceClaimTemplateName"] = reference.pop("resourceClaimName")


def _draw_claims(dice: Dice, template: Json, cluster: DrawnCase) -> Iterator[Json]:
    """Yield the claims of the group: mostly those that its pods name, seldom others."""
    for reference in template["spec"].get("resourceClaims", ()):
        if dice.chance(0.7):
            entry = dict(reference)
            if dice.chance(0.1):
                entry[dice.pick(("name", *(key for key in entry if key != "name")))] += "-other"
            yield entry
    on_time = [
        each["metadata"]["name"]
        for each in cluster.objects
        if each["kind"] == "ResourceClaimTemplate" and LATE not in each["metadata"].get("annotations", {})
    ]
    if on_time and dice.chance(0.1):
        yield {"name": "unused", "resourceClaimTemplateName": dice.pick(on_time)}
    if dice.chance(0.03):
        yield {"name": "missing", "resourceClaimName": "missing"}


def _create_member(dice: Dice, template: Json, name: str) -> Json:
    member = copy.deepcopy(template)
    member["metadata"]["name"] = name
    if dice.chance(0.2):
        member["spec"]["containers"] = containers(dice, modest=True)["containers"] + member["spec"]["containers"][1:]
        if member["spec"].get("resourceClaims"):
            member["spec"]["containers"] = copy.deepcopy(template["spec"]["containers"])
    if dice.chance(0.02):
        member["spec"]["priorityClassName"] = dice.pick(("low", "mid"))
    return member


def _join(dice: Dice, cluster: DrawnCase, template: Json) -> int:
    """Make pods on nodes members of the group, and return their number."""
    namespace = template["metadata"]["namespace"]
    chosen = [
        pod
        for pod in cluster.pods
        if pod["metadata"]["namespace"] == namespace
        and "nodeName" in pod["spec"]
        and pod["status"].get("phase") in ("Running", "Pending")
        and "deletionTimestamp" not in pod["metadata"]
    ][: dice.count(1, 2)]
    for pod in chosen:
        pod["spec"]["schedulingGroup"] = {"podGroupName": NAME}
        pod["spec"].pop("priorityClassName", None)
        if name := template["spec"].get("priorityClassName"):
            pod["spec"]["priorityClassName"] = name
    return len(chosen)


def _create_group(dice: Dice, template: Json, present: int) -> Json:
    policy: Json = {"basic": {}} if dice.chance(0.1) else {"gang": {"minCount": _draw_quorum(dice, present)}}
    spec: Json = {"schedulingPolicy": policy}
    if (name := template["spec"].get("priorityClassName")) and dice.chance(0.95):
        spec["priorityClassName"] = name
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": NAME, "namespace": template["metadata"]["namespace"]},
        "spec": spec,
    }


def _draw_quorum(dice: Dice, present: int) -> int:
    kind = dice.pick_weighted({"all": 5, "some": 4, "more": 0.7})
    return present + 1 if kind == "more" else present if kind == "all" else dice.count(1, present)
