"""A report: the findings of one namespace as the two report APIs of Kubernetes' policy group have them.

`openreports.io/v1alpha1` (github.com/openreports/reports-api v0.2.1, apis/openreports.io/v1alpha1/report_types.go) came
out of `wgpolicyk8s.io/v1alpha2` (kubernetes-sigs/wg-policy-prototypes); results are the same in both.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from webhook.audit.finding import Finding
from webhook.policy.model import Enforcement

NAME: Final = "tallygate"
"""What every report is called."""
MANAGED_BY: Final = ("app.kubernetes.io/managed-by", "tallygate")
"""The label of reports that are ours: no other is ever touched."""
DIGEST: Final = "tallygate.dev/digest"
LEFT_OUT: Final = "tallygate.dev/left-out"
MOST_RESULTS: Final = 500
MOST_BYTES: Final = 1_000_000
"""Of a report's results: etcd takes 1.5 MiB, and the API server adds to it who owns which field."""
_LONGEST: Final = 1000  # characters of a message, and of a path
_WHY: Final = 500

_RESULT: Mapping[Enforcement, tuple[str, str]] = {
    Enforcement.DENY: ("fail", "high"),
    Enforcement.WARN: ("warn", "medium"),
    Enforcement.AUDIT: ("warn", "info"),
}
_CATEGORY = {"rule": "ResourceRule", "cap": "NamespaceCap"}

Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Api:
    """One of the report APIs, and what its kinds are called."""

    group: str
    version: str
    kind: str
    plural: str
    says_source: bool

    @property
    def path(self) -> str:
        """Of the API."""
        return f"/apis/{self.group}/{self.version}"

    @property
    def name(self) -> str:
        """As in an object's `apiVersion`."""
        return f"{self.group}/{self.version}"


APIS: tuple[Api, ...] = (
    Api("openreports.io", "v1alpha1", "Report", "reports", says_source=True),
    Api("wgpolicyk8s.io", "v1alpha2", "PolicyReport", "policyreports", says_source=False),
)
"""The newer first: where both are installed, that is written."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a report says: its results without their times, how much was found in all, and a hash of both."""

    results: Sequence[Result]
    summary: Mapping[str, int]
    left_out: int
    digest: str


def content(findings: Iterable[Finding], counts: Counter[Enforcement]) -> Content:
    """What a namespace's report is to say of findings, the most important first, of which there are so many in all."""
    results: list[Result] = []
    size = 0
    for finding in findings:
        result = _result(finding)
        size += len(_ENCODER.encode(result))
        if len(results) >= MOST_RESULTS or size > MOST_BYTES:
            break
        results.append(result)
    summary = dict.fromkeys(("pass", "fail", "warn", "error", "skip"), 0)
    for enforcement, number in counts.items():
        summary[_RESULT[enforcement][0]] += number
    digest = hashlib.sha256(_ENCODER.encode([results, summary])).hexdigest()[:16]
    return Content(results, summary, counts.total() - len(results), digest)


def body(api: Api, namespace: str, said: Content, times: Mapping[str, Any], now: int) -> dict[str, Any]:
    """A report, ready to be sent; `times` are those of results that stood there before, `now` is Unix time."""
    annotations = {DIGEST: said.digest} | ({LEFT_OUT: f"{said.left_out}"} if said.left_out else {})
    labels = dict([MANAGED_BY]) | {"app.kubernetes.io/name": NAME}
    metadata: dict[str, Any] = {"name": NAME, "labels": labels, "annotations": annotations}
    results = [
        result | {"timestamp": times.get(key_of(result), {"seconds": now, "nanos": 0})} for result in said.results
    ]
    made: dict[str, Any] = {
        "apiVersion": api.name,
        "kind": api.kind if namespace else f"Cluster{api.kind}",
        "metadata": metadata | ({"namespace": namespace} if namespace else {}),
        "summary": said.summary,
        "results": results,
    }
    return made | ({"source": NAME} if api.says_source else {})


def key_of(result: Mapping[str, Any]) -> str:
    """What makes a result the same as one that stood there before: all of it but its time."""
    return _ENCODER.encode({name: value for name, value in result.items() if name != "timestamp"}).decode()


def _result(finding: Finding) -> Result:
    problem, subject = finding.problem, finding.subject
    result, severity = _RESULT[finding.enforcement]
    resource = {
        "apiVersion": subject.api_version,
        "kind": subject.kind,
        "namespace": subject.namespace,
        "name": subject.name,
        "uid": subject.uid,
    }
    properties = {"field": _clipped(problem.field, _LONGEST), "why": _clipped(finding.why, _WHY)}
    made = {
        "source": NAME,
        "category": _CATEGORY[problem.policy_kind],
        "policy": problem.rule,
        "rule": problem.code,
        "result": result,
        "severity": severity,
        "scored": True,
        "message": _clipped(finding.message, _LONGEST),
        "resources": [{name: value for name, value in resource.items() if value}],
        "properties": {name: value for name, value in properties.items() if value},
    }
    return {name: value for name, value in made.items() if value}


def _clipped(text: str, most: int) -> str:
    """A text of no more than so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


_ENCODER = msgspec.json.Encoder(order="deterministic")
