"""The search for devices, beside a plain transcription of its rules that tries every assignment of devices."""

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tallygate.accounting.kubernetes_versions.version import select_version
from tests.accounting.allocation.recorded_cases import answer

Json = dict[str, Any]
Assignment = list[tuple[Json, Json, Json]]
"""Claim, request (or its alternative) and device of each allocated device."""

_COUNTERS = 40
_models = st.sampled_from(["a100", "h100"])
_numas = st.sampled_from([0, 1])


@st.composite
def _devices(draw: st.DrawFn, name: str) -> Json:
    device: Json = {"name": name, "attributes": {"model": {"string": draw(_models)}}}
    if draw(st.booleans()):
        device["attributes"]["numa"] = {"int": draw(_numas)}
    if draw(st.booleans()):
        device["consumesCounters"] = [
            {"counterSet": "c", "counters": {"memory": {"value": str(draw(st.sampled_from([10, 20, 30, 40])))}}}
        ]
    if draw(st.integers(0, 4)) == 0:
        device["taints"] = [{"key": "broken", "effect": "NoSchedule"}]
    return device


@st.composite
def _wishes(draw: st.DrawFn) -> Json:
    wish: Json = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": draw(st.integers(1, 2))}
    if draw(st.booleans()):
        wish["deviceClassName"] = draw(_models)
    if draw(st.integers(0, 3)) == 0:
        wish["tolerations"] = [{"key": "broken", "operator": "Exists"}]
    return wish


@st.composite
def _claims(draw: st.DrawFn, name: str) -> Json:
    requests: list[Json] = []
    for number in range(draw(st.integers(1, 2))):
        if draw(st.integers(0, 2)) == 0:
            alternatives = [{"name": f"s{index}", **draw(_wishes())} for index in range(draw(st.integers(1, 2)))]
            requests.append({"name": f"r{number}", "firstAvailable": alternatives})
        else:
            requests.append({"name": f"r{number}", "exactly": draw(_wishes())})
    devices: Json = {"requests": requests}
    names: list[str] = [each["name"] for each in requests]
    if draw(st.booleans()):
        kind = draw(st.sampled_from(["matchAttribute", "distinctAttribute"]))
        devices["constraints"] = [{kind: f"gpu.example.com/{draw(st.sampled_from(['model', 'numa']))}"}]
        if draw(st.booleans()):
            devices["constraints"][0]["requests"] = [draw(st.sampled_from(names))]
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": devices}}


@st.composite
def _cases(draw: st.DrawFn) -> Json:
    devices = [draw(_devices(f"d{number}")) for number in range(draw(st.integers(0, 4)))]
    taken = [each["name"] for each in devices if draw(st.integers(0, 4)) == 0]
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 2}
    slices = [
        {"metadata": {"name": name}, "spec": {"driver": "gpu.example.com", "pool": pool, "nodeName": "n", **part}}
        for name, part in {
            "devices": {"devices": devices},
            "counters": {"sharedCounters": [{"name": "c", "counters": {"memory": {"value": str(_COUNTERS)}}}]},
        }.items()
    ]
    classes = [{"metadata": {"name": "any"}, "spec": {}}] + [
        {
            "metadata": {"name": model},
            "spec": {
                "selectors": [{"cel": {"expression": f'device.attributes["gpu.example.com"].model == "{model}"'}}]
            },
        }
        for model in ("a100", "h100")
    ]
    return {
        "allocated": {"devices": [f"gpu.example.com/pool/{name}" for name in taken]},
        "classes": classes,
        "slices": slices,
        "node": {"metadata": {"name": "n"}},
        "claims": [draw(_claims(f"claim{number}")) for number in range(draw(st.integers(1, 2)))],
    }


def _list_alternatives(claim: Json) -> list[list[Json]]:
    """Return for each request its alternatives, with the names by which constraints know them."""
    return [
        [
            {**each, "names": (request["name"], f"{request['name']}/{each['name']}")}
            for each in request["firstAvailable"]
        ]
        if "firstAvailable" in request
        else [{**request["exactly"], "names": (request["name"],)}]
        for request in claim["spec"]["devices"]["requests"]
    ]


def _list_assignments(case: Json, devices: Sequence[Json]) -> Iterator[Assignment]:
    """Yield every choice of an alternative and of devices for each request of all claims."""
    requests = [(claim, alternatives) for claim in case["claims"] for alternatives in _list_alternatives(claim)]
    for chosen in product(*(alternatives for _, alternatives in requests)):
        choices = (combinations(devices, wish["count"]) for wish in chosen)
        for assigned in product(*choices):
            yield [
                (claim, wish, device)
                for (claim, _), wish, some in zip(requests, chosen, assigned, strict=True)
                for device in some
            ]


def _is_valid(case: Json, devices: Sequence[Json], assignment: Assignment) -> bool:
    names = [device["name"] for *_, device in assignment]
    taken = {each.rpartition("/")[2] for each in case["allocated"]["devices"]}
    used = [each for each in devices if each["name"] in {*names, *taken}]
    counted = [int(each["consumesCounters"][0]["counters"]["memory"]["value"]) for each in used if _counts(each)]
    is_drawn = any(_counts(each) for each in devices if each["name"] in names)
    return (
        len(set(names)) == len(names)
        and not taken & set(names)
        and (not is_drawn or sum(counted) <= _COUNTERS)
        and all(_is_wanted(wish, device) for _, wish, device in assignment)
        and all(_meets_constraints(claim, assignment) for claim in case["claims"])
    )


def _counts(device: Json) -> bool:
    return "consumesCounters" in device


def _is_wanted(wish: Json, device: Json) -> bool:
    is_tolerated = "taints" not in device or "tolerations" in wish
    return is_tolerated and wish["deviceClassName"] in ("any", device["attributes"]["model"]["string"])


def _meets_constraints(claim: Json, assignment: Assignment) -> bool:
    for constraint in claim["spec"]["devices"].get("constraints", ()):
        (kind,) = constraint.keys() - {"requests"}
        attribute = constraint[kind].rpartition("/")[2]
        values = [
            str(device["attributes"].get(attribute))
            for owner, wish, device in assignment
            if owner is claim and ("requests" not in constraint or set(constraint["requests"]) & set(wish["names"]))
        ]
        if "None" in values or (len(set(values)) > 1 if kind == "matchAttribute" else len(set(values)) < len(values)):
            return False
    return True


@given(_cases())
@settings(max_examples=200, deadline=None)
def test_devices_are_found_if_any_assignment_is_valid(case: Json) -> None:
    devices = case["slices"][0]["spec"]["devices"]
    is_possible = any(_is_valid(case, devices, each) for each in _list_assignments(case, devices))
    assert ("results" in answer(case, select_version(37))) == is_possible
