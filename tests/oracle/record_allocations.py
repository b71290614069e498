"""Record the answers of Kubernetes' allocators of devices: `python -m tests.oracle.record_allocations` (needs Go 1.26).

The file of 1.36 has the cases of Kubernetes' own tests, those of 1.37's tests too. The file of 1.37 has the cases with
another answer than in 1.36, and those with features that 1.36 lacks. `default` is the answer with the features that are
on by default, where that is another one.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_ORACLES = Path(__file__).parent
_CASES = _ORACLES.parent / "accounting" / "devices" / "cases"
_BUILD_FLAGS = {"1.36": (), "1.37": ("-modfile", "versions/1.37.mod")}

DEFAULT_FEATURES: dict[str, tuple[str, ...]] = {
    "1.36": (
        "AdminAccess",
        "ConsumableCapacity",
        "DeviceBindingAndStatus",
        "DeviceTaints",
        "PartitionableDevices",
        "PrioritizedList",
    )
}
DEFAULT_FEATURES["1.37"] = DEFAULT_FEATURES["1.36"]
DEFAULT_FEATURES["1.38"] = (*DEFAULT_FEATURES["1.37"], "FractionalCapacityRange")
"""The allocator's features that are on by default, by version of Kubernetes.

In 1.37 FractionalCapacityRange needs `--min-compatibility-version=1.37`.
"""

Cases = dict[str, Mapping[str, Any]]


def _build(version: str) -> Path:
    program = _ORACLES / f"allocator-{version}.bin"
    command = ["go", "build", *_BUILD_FLAGS[version], "-o", str(program), "."]
    subprocess.run(command, cwd=_ORACLES / "allocator", check=True)  # noqa: S603 -- ours, and no shell
    return program


def _run(program: Path, *flags: str, cases: Iterable[Mapping[str, Any]] = ()) -> Cases:
    """Return the cases that a program writes, by name."""
    lines = "".join(_format_case(case) for case in cases)
    command = [str(program), *flags]
    done = subprocess.run(command, input=lines, text=True, check=True, stdout=subprocess.PIPE)  # noqa: S603 -- ours
    return {case["name"]: case for case in map(json.loads, done.stdout.splitlines())}


def _format_case(case: Mapping[str, Any]) -> str:
    return json.dumps(case, separators=(",", ":"), ensure_ascii=False) + "\n"


def _record_tests(program: Path) -> Cases:
    """Return the cases of a version's tests, which the program answers again from JSON in the same way."""
    cases = _run(program, "-record")
    again = _run(program, cases=cases.values())
    changed = [name for name, case in cases.items() if again[name] != case]
    if changed:
        sys.exit(f"{program.name} answers otherwise from JSON: {', '.join(changed)}")
    return cases


def _answer_known(program: Path, known: Cases, cases: Cases) -> Cases:
    """Return the cases that are not known yet, of known features, with the program's answers.

    An answer that is neither results nor an error is left out, with a line on standard error.
    """
    features = {feature for case in known.values() for feature in case["features"]}
    unknown = [case for name, case in cases.items() if name not in known and features.issuperset(case["features"])]
    answered = _run(program, cases=unknown)
    settled = {name: case for name, case in answered.items() if {"results", "error"} & set(case["answer"])}
    for name in sorted(answered.keys() - settled.keys()):
        sys.stderr.write(f"left out: {name}: {answered[name]['answer']}\n")
    return settled


def _add_default_answers(version: str, program: Path, cases: Cases) -> Cases:
    """Return the cases with the answers that a cluster without settings of its own gives, where these differ."""
    answered = _run(program, cases=[{**case, "features": DEFAULT_FEATURES[version]} for case in cases.values()])
    return {
        name: case if answered[name]["answer"] == case["answer"] else {**case, "default": answered[name]["answer"]}
        for name, case in cases.items()
    }


def _write_cases(version: str, cases: Cases) -> None:
    path = _CASES / f"allocator-{version}.jsonl"
    path.write_text("".join(_format_case(cases[name]) for name in sorted(cases)), "utf-8")
    sys.stderr.write(f"{path.name}: {len(cases)} cases\n")


def main() -> None:
    """Write the case files of both versions."""
    older, newer = _build("1.36"), _build("1.37")
    cases = _record_tests(older)
    newer_cases = _record_tests(newer)
    cases |= _answer_known(older, cases, newer_cases)
    newer_cases |= _answer_known(newer, newer_cases, cases)
    cases = _add_default_answers("1.36", older, cases)
    newer_cases = _add_default_answers("1.37", newer, newer_cases)
    _write_cases("1.36", cases)
    _write_cases("1.37", {name: case for name, case in newer_cases.items() if cases.get(name) != case})


if __name__ == "__main__":
    main()
