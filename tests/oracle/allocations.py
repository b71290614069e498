"""Random cases for the allocator of devices, and the product's answers beside those of Kubernetes' own.

`python -m tests.oracle.allocations 5000 --seed 1` (needs the programs of `tests.oracle.record_allocations`) writes each
case with another answer, and its inputs to `--out`; exit code 1 if there is one.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from e2e.scheduling.draw.device_claims import draw_claim_spec, draw_classes
from e2e.scheduling.draw.device_slices import draw_slices
from e2e.scheduling.draw.dice import Dice
from e2e.scheduling.draw.names import HOSTNAME, ZONE
from tallygate.accounting.allocation.planned_requests import UndecidedAllocationError
from tallygate.accounting.kubernetes_versions.version import parse_minor, select_version
from tests.accounting.allocation.recorded_cases import answer, select_answer
from tests.oracle.record_allocations import DEFAULT_FEATURES

_ORACLES = Path(__file__).parent
_NODES = ("n0", "n1")
_BATCH = 500

Case = dict[str, Any]


def draw_allocation(seed: str, features: tuple[str, ...]) -> Case:
    """Return a case without an answer: slices of two nodes, devices that are allocated, one node and its claims."""
    dice = Dice(seed)
    slices = draw_slices(dice, _NODES)
    claims = [
        {
            "metadata": {"name": f"claim{number}", "namespace": "default"},
            "spec": _set_defaults(draw_claim_spec(dice)),
        }
        for number in range(dice.pick_weighted({1: 6, 2: 3, 3: 1}))
    ]
    allocated = _draw_allocated(dice, slices)
    case = {
        "name": seed,
        "features": features,
        "allocated": allocated,
        "classes": draw_classes(dice),
        "slices": slices,
        "node": {"metadata": {"name": "n0", "labels": {HOSTNAME: "n0", ZONE: dice.pick(("a", "b", "c"))}}},
        "claims": claims,
    }
    return _vary(dice, case) if dice.chance(0.4) else case


def _vary(dice: Dice, case: Case) -> Case:
    """Return a case with what versions read in different ways: names with a domain, builds, devices shared before."""
    varied: Case = json.loads(json.dumps(case))  # the drawn objects share parts
    for each in varied["slices"]:
        spec = each["spec"]
        for device in spec.get("devices", ()):
            _vary_device(dice, spec["driver"], device)
        for name, amounts in varied["allocated"].get("capacity", {}).items():
            if name.startswith(f"{spec['driver']}/{spec['pool']['name']}/"):
                varied["allocated"]["capacity"][name] = _qualify(dice, spec["driver"], amounts)
    drivers = [each["spec"]["driver"] for each in varied["slices"]] or ["none"]
    requests = (each for claim in varied["claims"] for each in claim["spec"]["devices"].get("requests", ()))
    for each in (each for request in requests for each in request.get("firstAvailable") or [request["exactly"]]):
        if "capacity" in each:
            each["capacity"]["requests"] = _qualify(dice, dice.pick(drivers), each["capacity"]["requests"])
    return varied


def _vary_device(dice: Dice, driver: str, device: Case) -> None:
    if "capacity" in device:
        device["capacity"] = _qualify(dice, driver, device["capacity"])
    if dice.chance(0.3):
        device.pop("allowMultipleAllocations", None)
    for attribute in device.get("attributes", {}).values():
        if "version" in attribute and dice.chance(0.5):
            attribute["version"] += dice.pick(("+a", "+b", "-rc.1"))


def _qualify(dice: Dice, driver: str, amounts: Case) -> Case:
    """Return amounts, some with the driver before their names."""
    return {f"{driver}/{name}" if dice.chance(0.3) else name: amount for name, amount in amounts.items()}


def _set_defaults(spec: Case) -> Case:
    """Set the fields to which an API server gives a default, and return the spec."""
    for request in spec["devices"].get("requests", ()):
        for each in request.get("firstAvailable") or [request["exactly"]]:
            if each.setdefault("allocationMode", "ExactCount") == "ExactCount":
                each.setdefault("count", 1)
    return spec


def _draw_allocated(dice: Dice, slices: list[Case]) -> Case:
    """Return devices that claims have, whole or in shares."""
    allocated: Case = {"devices": [], "shared": [], "capacity": {}}
    density = dice.pick((0.0, 0.2, 0.5))
    for each in slices:
        for device in each["spec"].get("devices", ()):
            name = f"{each['spec']['driver']}/{each['spec']['pool']['name']}/{device['name']}"
            if not dice.chance(density) or name in allocated["devices"]:
                continue
            if not device.get("allowMultipleAllocations"):
                allocated["devices"].append(name)
                continue
            allocated["shared"].append(f"{name}/share")
            if "capacity" in device and dice.chance(0.9):
                allocated["capacity"][name] = {
                    key: dice.pick(("0", "1", "500m") if key != "memory" else ("4Gi", "8Gi", "20Gi", "36Gi", "40Gi"))
                    for key in device["capacity"]
                }
    return {key: value for key, value in allocated.items() if value}


def _answer_all(version: str, cases: list[Case]) -> list[Case]:
    """Return the cases with the answers of Kubernetes."""
    program = _ORACLES / f"allocator-{version}.bin"
    lines = "".join(json.dumps(each) + "\n" for each in cases)
    done = subprocess.run([str(program)], input=lines, text=True, check=True, stdout=subprocess.PIPE)  # noqa: S603 -- ours
    return [json.loads(line) for line in done.stdout.splitlines()]


def _describe(found: Mapping[str, Any]) -> str:
    """Return the kind of an answer, for the count."""
    if "error" in found:
        return "error"
    if "results" in found:
        return "allocated" if found["results"] is not None else "not allocated"
    return next(iter(found))


def _find_differences(version: str, cases: list[Case], counts: Counter[str]) -> Iterator[tuple[Case, Any]]:
    """Yield each case with another answer of the product; an answer that depends on the order of a map is skipped."""
    for case in _answer_all(version, cases):
        counts[_describe(case["answer"])] += 1
        if not {"results", "error"} & set(case["answer"]):
            continue
        try:
            found = answer(case, select_version(parse_minor(version)))
        except UndecidedAllocationError:
            counts["not judged"] += 1
            continue
        except Exception as error:  # noqa: BLE001 -- any error is a difference, and the next case follows
            found = {"exception": repr(error)}
        if found != select_answer(case["answer"]):
            yield case, found


def main() -> int:
    """Compare the answers."""
    parser = argparse.ArgumentParser(description="Compare the allocator with Kubernetes' own on random cases.")
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--version", choices=sorted(DEFAULT_FEATURES), action="append")
    parser.add_argument("--out", type=Path, help="append the differing cases to this file")
    arguments = parser.parse_args()
    different = 0
    for version in arguments.version or sorted(DEFAULT_FEATURES):
        counts: Counter[str] = Counter()
        for start in range(0, arguments.count, _BATCH):
            numbers = range(start, min(start + _BATCH, arguments.count))
            cases = [draw_allocation(f"{arguments.seed}/{each}", DEFAULT_FEATURES[version]) for each in numbers]
            for case, found in _find_differences(version, cases, counts):
                different += 1
                sys.stdout.write(
                    f"{version} {case['name']}:\n  {json.dumps(select_answer(case['answer']))}\n  {json.dumps(found)}\n"
                )
                if arguments.out:
                    with arguments.out.open("a") as out:
                        out.write(json.dumps({"version": version, **case}) + "\n")
        shown = ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common())
        sys.stdout.write(f"{version}: {counts.total():,} cases: {shown}\n")
    sys.stdout.write(f"{different} differ\n")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
