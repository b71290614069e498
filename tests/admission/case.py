"""Cases of `cases/*.yaml`: policies, an admission request, and the expected verdict."""

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tallygate.accounting.problem import Problem
from tallygate.admission.evaluate import evaluate_request
from tallygate.admission.request import AdmissionRequest, Phase, UserInfo, Verdict
from tallygate.admission.rule_index import RuleIndex
from tallygate.policy.lint_findings import Severity
from tallygate.policy.model import PolicySet
from tallygate.policy.parse import parse
from tests.wording import Recorded, find_names

FOLDER = Path(__file__).parent / "cases"
_GROUPS = {"Deployment": "apps", "ReplicaSet": "apps", "StatefulSet": "apps", "DaemonSet": "apps"} | {
    "Job": "batch",
    "CronJob": "batch",
    "ResourceClaim": "resource.k8s.io",
    "ResourceClaimTemplate": "resource.k8s.io",
}
_PARTS = ("problems", "warnings", "audits", "unknown", "patch", "implied")


@functools.cache
def parse_policies(text: str) -> PolicySet:
    """Return the policies of a text, which must have no errors."""
    parsed = parse([("case.yaml", text.encode())])
    errors = [str(finding) for finding in parsed.findings if finding.severity is Severity.ERROR]
    assert not errors, errors
    return parsed.policies


@dataclass(frozen=True, slots=True)
class Case:
    """One sentence: `request` as written in the file, and the `expected` parts of the verdict."""

    rules: PolicySet
    request: dict[str, Any]
    expected: dict[str, Any]
    names: frozenset[str]

    def record(self, name: str) -> Recorded:
        """Return the expected verdict as a text."""
        return Recorded(name, write_verdict(self.expected), self.names)

    def evaluate(self) -> Verdict:
        """Return the verdict of the rules."""
        phase = Phase(self.request.get("phase", "validate"))
        return evaluate_request(create_request(self.request), RuleIndex(self.rules), self.request.get("labels"), phase)


def create_request(request: dict[str, Any]) -> AdmissionRequest:
    """Return the admission request of a case: an UPDATE if it has an old object."""
    kind = request["object"].get("kind", "Pod")
    old = request.get("old")
    return AdmissionRequest(
        kind=kind,
        group=request.get("group", _GROUPS.get(kind, "")),
        operation=request.get("operation", "CREATE" if old is None else "UPDATE"),
        object=json.dumps(request["object"]).encode(),
        old_object=None if old is None else json.dumps(old).encode(),
        subresource=request.get("subresource", ""),
        namespace=request.get("namespace", "" if kind == "Node" else "team-a"),
        name="it",
        dry_run=request.get("dry_run", False),
        user=UserInfo(request.get("user", "jane"), tuple(request.get("groups", ()))),
    )


def describe_verdict(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict in the form of the files: only the parts that are not empty."""
    parts = {part: [_plain(each) for each in getattr(verdict, part)] for part in _PARTS}
    return {part: items for part, items in parts.items() if items}


def write_verdict(parts: dict[str, Any]) -> str:
    """Return the parts of a verdict as lines."""
    return "\n".join(
        f"{part}: {item if isinstance(item, str) else json.dumps(item, separators=(',', ':'))}"
        for part, items in parts.items()
        for item in items
    )


def _plain(item: Problem | str | dict[str, Any]) -> Any:
    if isinstance(item, dict):
        return json.loads(json.dumps(item, default=lambda raw: json.loads(bytes(raw))))
    return str(item)


def list_recorded() -> list[Recorded]:
    """Return the expected verdicts of all cases as texts, a line for each problem."""
    return [case.record(name) for name, case in read_cases().items()]


def read_cases() -> dict[str, Case]:
    """Return every case of every file, by its sentence."""
    cases: dict[str, Case] = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        document = yaml.safe_load(path.read_text("utf-8"))
        rules, names = parse_policies(document["policies"]), find_names([document["policies"]])
        for sentence, case in document["cases"].items():
            name = f"{path.stem}: {sentence}"
            assert name not in cases
            expected = {part: case[part] for part in _PARTS if part in case}
            request = {key: value for key, value in case.items() if key not in _PARTS}
            cases[name] = Case(rules, request, expected, names | find_names([json.dumps(request)]))
    return cases
