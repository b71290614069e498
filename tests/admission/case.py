"""Cases of judging, read from the files beside: policies, a change, and what is to come of it."""

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from webhook.accounting.problem import Problem
from webhook.admission.evaluate import evaluate_request
from webhook.admission.request import AdmissionRequest, Phase, UserInfo, Verdict
from webhook.admission.rule_index import RuleIndex
from webhook.policy.lint_findings import Severity
from webhook.policy.model import PolicySet
from webhook.policy.parse import parse

FOLDER = Path(__file__).parent / "cases"
_GROUPS = {"Deployment": "apps", "ReplicaSet": "apps", "StatefulSet": "apps", "DaemonSet": "apps"} | {
    "Job": "batch",
    "CronJob": "batch",
}
_PARTS = ("problems", "warnings", "audits", "unknown", "patch")


@functools.cache
def policies(text: str) -> PolicySet:
    """The policies of a case, which must be free of errors."""
    parsed = parse([("case.yaml", text.encode())])
    errors = [str(finding) for finding in parsed.findings if finding.severity is Severity.ERROR]
    assert not errors, errors
    return parsed.policies


@dataclass(frozen=True, slots=True)
class Case:
    """One sentence: `asks` is the change as written in the file, `answers` what is expected of it."""

    rules: PolicySet
    asks: dict[str, Any]
    answers: dict[str, Any]

    def verdict(self) -> Verdict:
        """What the rules say."""
        asks = self.asks
        phase = Phase(asks.get("phase", "validate"))
        return evaluate_request(change(asks), RuleIndex(self.rules), asks.get("labels"), phase)


def change(asks: dict[str, Any]) -> AdmissionRequest:
    """The change that a case writes: UPDATE when there is an old object."""
    kind = asks["object"].get("kind", "Pod")
    old = asks.get("old")
    return AdmissionRequest(
        kind=kind,
        group=asks.get("group", _GROUPS.get(kind, "")),
        operation=asks.get("operation", "CREATE" if old is None else "UPDATE"),
        object=json.dumps(asks["object"]).encode(),
        old_object=None if old is None else json.dumps(old).encode(),
        subresource=asks.get("subresource", ""),
        namespace=asks.get("namespace", "" if kind == "Node" else "team-a"),
        name="it",
        user=UserInfo(asks.get("user", "jane"), tuple(asks.get("groups", ()))),
    )


def said(verdict: Verdict) -> dict[str, Any]:
    """A verdict in the form the files write it: only what there is."""
    parts = {part: [_plain(each) for each in getattr(verdict, part)] for part in _PARTS}
    return {part: items for part, items in parts.items() if items}


def _plain(item: Problem | str | dict[str, Any]) -> Any:
    if isinstance(item, dict):
        return json.loads(json.dumps(item, default=lambda raw: json.loads(bytes(raw))))
    return str(item)


def read() -> dict[str, Case]:
    """Every case of every file, by its sentence."""
    found: dict[str, Case] = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        document = yaml.safe_load(path.read_text("utf-8"))
        rules = policies(document["policies"])
        for sentence, case in document["cases"].items():
            name = f"{path.stem}: {sentence}"
            assert name not in found
            answers = {part: case[part] for part in _PARTS if part in case}
            found[name] = Case(rules, {key: value for key, value in case.items() if key not in _PARTS}, answers)
    return found
