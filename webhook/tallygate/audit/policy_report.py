"""The report on the findings of one namespace, in the two report APIs of Kubernetes' policy group.

`openreports.io/v1alpha1` (github.com/openreports/reports-api v0.2.1, apis/openreports.io/v1alpha1/report_types.go) is
derived from `wgpolicyk8s.io/v1alpha2` (kubernetes-sigs/wg-policy-prototypes); results are the same in both.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tallygate.accounting.problem import BUILT_IN_CHECK
from tallygate.audit.audit_findings import AuditFinding
from tallygate.audit.old_names import OLD_NAME
from tallygate.policy.model import Enforcement

REPORT_NAME: Final = "tallygate"
"""The name of every report."""
MANAGED_BY_LABEL: Final = ("app.kubernetes.io/managed-by", "tallygate")
"""The label of the reports of tallygate; the writer never changes a report without it."""
DIGEST_ANNOTATION: Final = "tallygate.dev/digest"
OMITTED_ANNOTATION: Final = "tallygate.dev/left-out"
MAX_RESULTS: Final = 500
MAX_RESULT_BYTES: Final = 1_000_000
"""The limit of a report's results: etcd accepts 1.5 MiB, and the API server adds the managed fields."""
_MAX_TEXT_LENGTH: Final = 1000  # characters of a message, and of a path
_MAX_REASON_LENGTH: Final = 500

_RESULTS_BY_ENFORCEMENT: Mapping[Enforcement, tuple[str, str]] = {
    Enforcement.DENY: ("fail", "high"),
    Enforcement.WARN: ("warn", "medium"),
    Enforcement.AUDIT: ("warn", "info"),
}
_BUILT_IN_POLICY = "built-in"  # of a finding that needs no policy; the APIs require a name
_CATEGORIES = {"rule": "ResourceRule", "cap": "NamespaceCap", BUILT_IN_CHECK: "LimitRange"}

ReportResult = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReportApi:
    """One of the report APIs and the names of its kinds."""

    group: str
    version: str
    kind: str
    plural: str
    has_source: bool

    @property
    def path(self) -> str:
        """The path of the API."""
        return f"/apis/{self.group}/{self.version}"

    @property
    def name(self) -> str:
        """The `apiVersion` of an object of the API."""
        return f"{self.group}/{self.version}"


REPORT_APIS: tuple[ReportApi, ...] = (
    ReportApi("openreports.io", "v1alpha1", "Report", "reports", has_source=True),
    ReportApi("wgpolicyk8s.io", "v1alpha2", "PolicyReport", "policyreports", has_source=False),
)
"""The report APIs, the newer first: it is used if both are installed."""


@dataclass(frozen=True, slots=True)
class ReportContent:
    """The content of a report: its results without timestamps, the numbers of all findings, and a hash of both."""

    results: Sequence[ReportResult]
    summary: Mapping[str, int]
    omitted: int
    digest: str


def create_content(findings: Iterable[AuditFinding], counts: Counter[Enforcement]) -> ReportContent:
    """Return the content of a namespace's report.

    `findings` come with the most important first; `counts` are the numbers of all findings.
    """
    results: list[ReportResult] = []
    size = 0
    for finding in findings:
        result = _create_result(finding)
        size += len(_REPORT_ENCODER.encode(result))
        if len(results) >= MAX_RESULTS or size > MAX_RESULT_BYTES:
            break
        results.append(result)
    summary = dict.fromkeys(("pass", "fail", "warn", "error", "skip"), 0)
    for enforcement, count in counts.items():
        summary[_RESULTS_BY_ENFORCEMENT[enforcement][0]] += count
    digest = hashlib.sha256(_REPORT_ENCODER.encode([results, summary])).hexdigest()[:16]
    return ReportContent(results, summary, counts.total() - len(results), digest)


def create_report(
    api: ReportApi, namespace: str, content: ReportContent, timestamps: Mapping[str, Any], now: int
) -> dict[str, Any]:
    """Return a report to send; `timestamps` are those of the results of the previous report, `now` is Unix time."""
    annotations = {DIGEST_ANNOTATION: content.digest} | (
        {OMITTED_ANNOTATION: f"{content.omitted}"} if content.omitted else {}
    )
    labels = dict([MANAGED_BY_LABEL]) | {"app.kubernetes.io/name": REPORT_NAME}
    metadata: dict[str, Any] = {"name": REPORT_NAME, "labels": labels, "annotations": annotations}
    results = [
        result | {"timestamp": timestamps.get(create_result_key(result), {"seconds": now, "nanos": 0})}
        for result in content.results
    ]
    report: dict[str, Any] = {
        "apiVersion": api.name,
        "kind": api.kind if namespace else f"Cluster{api.kind}",
        "metadata": metadata | ({"namespace": namespace} if namespace else {}),
        "summary": content.summary,
        "results": results,
    }
    return report | ({"source": REPORT_NAME} if api.has_source else {})


def create_result_key(result: Mapping[str, Any]) -> str:
    """Return the key that identifies a result across reports: all fields but its timestamp."""
    return _REPORT_ENCODER.encode({name: value for name, value in result.items() if name != "timestamp"}).decode()


def _create_result(finding: AuditFinding) -> ReportResult:
    problem, object_ref = finding.problem, finding.subject
    result, severity = _RESULTS_BY_ENFORCEMENT[finding.enforcement]
    resource = {
        "apiVersion": object_ref.api_version,
        "kind": object_ref.kind,
        "namespace": object_ref.namespace,
        "name": object_ref.name,
        "uid": object_ref.uid,
    }
    properties = {
        "field": _truncate(problem.field, _MAX_TEXT_LENGTH),
        "why": _truncate(finding.policy_reason, _MAX_REASON_LENGTH),
    }
    entry = {
        "source": REPORT_NAME,
        "category": "ResourceName" if problem.code == OLD_NAME else _CATEGORIES[problem.policy_kind],
        "policy": problem.rule or _BUILT_IN_POLICY,
        "rule": problem.code,
        "result": result,
        "severity": severity,
        "scored": True,
        "message": _truncate(finding.message, _MAX_TEXT_LENGTH),
        "resources": [{name: value for name, value in resource.items() if value}],
        "properties": {name: value for name, value in properties.items() if value},
    }
    return {name: value for name, value in entry.items() if value}


def _truncate(text: str, max_length: int) -> str:
    """Return a text cut to at most `max_length` characters."""
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


_REPORT_ENCODER = msgspec.json.Encoder(order="deterministic")
