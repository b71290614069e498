"""Devices for a drawn cluster: classes, slices, claims of pods on nodes, and what the incoming pod asks for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from e2e.scheduling.draw.cluster_parts import DrawnCase
from e2e.scheduling.draw.device_choices import draw_choice_classes, draw_choice_slices, draw_choice_spec
from e2e.scheduling.draw.device_claims import BACKED, CLASSES, LATE, draw_claim_spec, draw_classes
from e2e.scheduling.draw.device_slices import draw_slices
from e2e.scheduling.draw.dice import Dice
from e2e.scheduling.draw.names import DELETION_TIMESTAMP, ZONE, Json

IMPLICIT = "deviceclass.resource.kubernetes.io/"
_SHARE = "6b06e461-97e2-48b1-b9ab-49435e6e{:04x}"
_FINALIZER = "resource.kubernetes.io/delete-protection"
_CHOICE_KINDS = {"own": 4.0, "template": 3.0, "allocated": 0.4}
_KINDS = {"own": 6.0, "template": 3.0, "allocated": 2.0, "deleted": 0.15, "missing": 0.1, "late": 0.15}
"""What a reference of the incoming pod is about: a claim without devices, a template, or a claim that has devices.

No claim is made from a late template.
"""
_NOT_READY = {"deleted", "missing"}
_CONDITIONS = ("example.com/attached", "example.com/ready", "example.com/failed")
_BINDINGS = ("unreported", "waiting", "bound", "bound", "failed")
"""What a driver reports of a device with binding conditions."""
_TIMESTAMPS = ("2026-01-01T10:00:00Z", "2126-01-01T10:00:00Z")  # the driver is late after the first one, and in time
_DENSITIES = (0.0, 0.2, 0.2, 0.5, 0.8)


def add_devices(dice: Dice, case: DrawnCase, tag: str) -> DrawnCase:
    """Return a case with devices; its pods and nodes are changed.

    Pools and claims have the tag of the case in their names: a scheduler that waits for a driver keeps the devices of
    an earlier case for some seconds.
    """
    names = [each["metadata"]["name"] for each in case.nodes]
    is_choice = "choice" in dice.about
    slices = draw_choice_slices(dice, names, tag) if is_choice else draw_slices(dice, names, tag)
    allocated = [
        _create_allocated_claim(dice, number, case, each) for number, each in enumerate(_draw_allocated(dice, slices))
    ]
    for node in case.nodes:
        _change_resources(dice, node)
    for claim in allocated:
        if case.pods and dice.chance(0.5):
            _add_reference(dice.pick(case.pods), claim)
    classes = draw_choice_classes(dice) if is_choice else draw_classes(dice)
    resources = BACKED[:1] if is_choice else _list_resources(classes)
    asked = list(_ask(dice, case.pod, allocated, resources))
    for each in (*allocated, *asked):
        each["metadata"]["name"] += tag
    for pod in (*case.pods, case.pod):
        for reference in pod["spec"].get("resourceClaims", ()):
            for key in reference.keys() - {"name"}:
                reference[key] += tag
    return replace(case, objects=[*case.objects, *classes, *slices, *allocated, *asked])


def _list_resources(classes: Sequence[Json]) -> Sequence[str]:
    """Return the extended resources that classes may back.

    If classes share one, the order in which kube-scheduler sees them decides about the implicit names of the others.
    """
    names = [each["spec"].get("extendedResourceName") for each in classes]
    shares = len(set(names) - {None}) < len(names) - names.count(None)
    return BACKED if shares else (*BACKED, *(IMPLICIT + each for each in CLASSES[:2]))


def _change_resources(dice: Dice, node: Json) -> None:
    """Remove an extended resource that classes may back from most nodes, and add another one to some."""
    for amounts in {id(each): each for each in (node["status"]["capacity"], node["status"]["allocatable"])}.values():
        if dice.chance(0.7):
            amounts.pop(BACKED[1], None)
        if dice.chance(0.3 if "choice" in dice.about else 0.15):
            amounts[BACKED[0]] = dice.pick(("0", "1", "4"))


def _draw_allocated(dice: Dice, slices: Sequence[Json]) -> Iterator[list[tuple[Json, Json]]]:
    """Yield the devices of claims, with their slices; nearly all claims have different ones."""
    density = dice.pick(_DENSITIES[: 3 if "choice" in dice.about else None])
    taken = list[tuple[Json, Json]]()
    for each in slices:
        for device in each["spec"].get("devices", ()):
            if dice.chance(density):
                taken.append((each, device))
    while taken:
        count = min(len(taken), dice.pick_weighted({1: 5, 2: 2, 3: 1}))
        yield taken[:count]
        taken = taken[count:]


def _create_allocated_claim(dice: Dice, number: int, case: DrawnCase, devices: list[tuple[Json, Json]]) -> Json:
    request = {"name": "r", "exactly": {"deviceClassName": "any", "count": len(devices)}}
    claim = _create_claim(f"allocated{number}", case.pod["metadata"]["namespace"], {"devices": {"requests": [request]}})
    results = [_create_result(dice, 64 * number + index, *each) for index, each in enumerate(devices)]
    allocation: Json = {"devices": {"results": results}, "allocationTimestamp": dice.pick(_TIMESTAMPS)}
    if dice.chance(0.05):  # as schedulers before Kubernetes 1.36 write it
        del allocation["allocationTimestamp"]
    allocation |= _draw_reach(dice, case, devices[0][0]["spec"])
    owner = {"resource": "pods", "name": f"old{number}", "uid": _SHARE.format(0xF000 + number)}
    claim["metadata"]["finalizers"] = [_FINALIZER]
    claim["status"] = {"allocation": allocation} | ({"reservedFor": [owner]} if dice.chance(0.6) else {})
    if dice.chance(0.3):
        claim["status"]["devices"] = list(_draw_bindings(dice, results))
    return claim


def _draw_bindings(dice: Dice, results: Sequence[Json]) -> Iterator[Json]:
    """Add binding conditions to some results, and yield what the driver reports of their devices."""
    for result in results:
        if not dice.chance(0.7):
            continue
        result["bindingConditions"] = ["example.com/attached", "example.com/ready"][: dice.count(1, 2)]
        result["bindingFailureConditions"] = ["example.com/failed"]
        binding = dice.pick(_BINDINGS)
        true = set(result["bindingConditions"]) if binding == "bound" else set()
        true |= {"example.com/failed"} if binding == "failed" else set()
        device = {key: result[key] for key in ("driver", "pool", "device", "shareID") if key in result}
        if binding != "unreported":
            yield device | {"conditions": [_create_condition(each, is_true=each in true) for each in _CONDITIONS]}


def _create_condition(name: str, *, is_true: bool) -> Json:
    status = "True" if is_true else "False"
    return {"type": name, "status": status, "reason": "Drawn", "message": "", "lastTransitionTime": _TIMESTAMPS[0]}


def _create_result(dice: Dice, number: int, published: Json, device: Json) -> Json:
    spec = published["spec"]
    result: Json = {"request": "r", "driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
    if device.get("allowMultipleAllocations"):
        result["shareID"] = _SHARE.format(number)
        if "capacity" in device and dice.chance(0.9):
            result["consumedCapacity"] = {
                name: dice.pick(("4Gi", "8Gi", "20Gi", "40Gi")) if name == "memory" else dice.pick(("0", "1", "500m"))
                for name in device["capacity"]
            }
    return result


def _draw_reach(dice: Dice, case: DrawnCase, spec: Json) -> Json:
    """Return the part of an allocation about the nodes from which the devices can be reached."""
    node = spec.get("nodeName") or (dice.pick(case.nodes)["metadata"]["name"] if case.nodes else "n0")
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    zoned = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": dice.sample(("a", "b", "c"), 1, 2)}]}
    term = dice.pick((named, named, named, zoned, None))
    return {} if term is None else {"nodeSelector": {"nodeSelectorTerms": [term]}}


def _create_claim(name: str, namespace: str, spec: Json) -> Json:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}


def _add_reference(pod: Json, claim: Json) -> None:
    """Let a pod on a node use a claim of its namespace."""
    if pod["metadata"]["namespace"] == claim["metadata"]["namespace"]:
        name = claim["metadata"]["name"]
        pod["spec"].setdefault("resourceClaims", []).append({"name": name, "resourceClaimName": name})


def _ask(dice: Dice, pod: Json, allocated: Sequence[Json], resources: Sequence[str]) -> Iterator[Json]:
    """Let the incoming pod use claims and extended resources, and yield the claims and templates that are new."""
    weights = _CHOICE_KINDS if "choice" in dice.about else _KINDS
    kinds = [dice.pick_weighted(weights) for _ in range(dice.pick_weighted({0: 1.5, 1: 6, 2: 2}))]
    if "template" in kinds:
        kinds = [each for each in kinds if each not in _NOT_READY]
    namespace, unused = pod["metadata"]["namespace"], list(allocated)
    references = []
    for number, kind in enumerate(kinds):
        name = f"mine{number}"
        reference = {"name": name, "resourceClaimName": name}
        if kind == "allocated" and unused:
            reference["resourceClaimName"] = unused.pop(dice.count(0, len(unused) - 1))["metadata"]["name"]
        elif kind in {"template", "late"}:
            reference = {"name": name, "resourceClaimTemplateName": name}
            template = _create_claim(name, namespace, {"spec": _draw_spec(dice)})
            template["kind"] = "ResourceClaimTemplate"
            if kind == "late":
                template["metadata"]["annotations"] = {LATE: ""}
            yield template
        elif kind != "missing":
            claim = _create_claim(name, namespace, _draw_spec(dice))
            if kind == "deleted":
                claim["metadata"] |= {"finalizers": ["example.com/kept"], "deletionTimestamp": DELETION_TIMESTAMP}
            yield claim
        references.append(reference)
    if references:
        pod["spec"]["resourceClaims"] = references
    if not references or dice.chance(0.35 if "choice" in dice.about else 0.2):
        _request_resources(dice, pod["spec"], resources)


def _draw_spec(dice: Dice) -> Json:
    return draw_choice_spec(dice) if "choice" in dice.about else draw_claim_spec(dice)


def _request_resources(dice: Dice, spec: Json, resources: Sequence[str]) -> None:
    """Let containers request extended resources that classes may back."""
    names = dice.sample(resources, 1, 2)
    containers = [*spec.get("initContainers", ()), *spec["containers"]]
    for container in dice.sample(containers, 1, len(containers)):
        amounts: Mapping[str, str] = {name: dice.pick_weighted({"1": 5, "2": 3, "3": 1, "0": 0.3}) for name in names}
        has = container.setdefault("resources", {})
        for part in ("requests", "limits"):
            has[part] = {**has.get(part, {}), **amounts}


def back_by_plugins(dice: Dice, case: DrawnCase) -> None:
    """Let a pod with claims request a resource that plugins serve on some nodes and a class on others, at times."""
    classes = [each for each in case.objects if each["kind"] == "DeviceClass"]
    if not classes or not case.pod["spec"].get("resourceClaims") or not dice.chance(0.15):
        return
    names = [each["spec"].get("extendedResourceName") for each in classes]
    if BACKED[0] not in names:
        dice.pick(classes)["spec"]["extendedResourceName"] = BACKED[0]
    for node in case.nodes:
        for amounts in {
            id(each): each for each in (node["status"]["capacity"], node["status"]["allocatable"])
        }.values():
            amounts[BACKED[0]] = dice.pick(("0", "1", "4", "4"))
    resources = dice.pick(case.pod["spec"]["containers"]).setdefault("resources", {})
    for amounts in (resources.setdefault("requests", {}), resources.setdefault("limits", {})):
        amounts[BACKED[0]] = "1"
