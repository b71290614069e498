"""The compiled admission policies beside the gate: the same findings, or a listed gap explains each that lacks."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tallygate.accounting.kubernetes_codes import NAME_MALFORMED, NAME_NOT_ALLOWED, NAME_NOT_EXTENDED
from tallygate.accounting.quantity import Quantity
from tallygate.admission.evaluate import evaluate_request
from tallygate.admission.kinds import REVIEW_TARGETS, find_claim
from tallygate.admission.request import AdmissionRequest, Phase, UserInfo, Verdict
from tallygate.admission.rule_index import RuleIndex
from tallygate.answers.api_validation import apply_patch, validate_object
from tallygate.backstop.gaps import Gap
from tallygate.backstop.object_variables import MAX_ENTRIES, MAX_LISTS
from tallygate.policy.model import Equality, PolicySet, ResourceRule

Object = dict[str, Any]

_ORIGIN = re.compile(r"\((?P<code>TG\d{3}), rule (?P<rule>[\w.-]+)(?:: [^()]*)?\)")
_CUT = "…"
_NAME_CODES = {NAME_MALFORMED, NAME_NOT_ALLOWED, NAME_NOT_EXTENDED}
_BOUNDS = {"TG105": "perContainer", "TG106": "perContainer", "TG107": "perContainer", "TG108": "perPod"}
_INEXACT = Quantity.from_int(10**10)


def create_request(request: Mapping[str, Any], body: bytes | None = None) -> AdmissionRequest:
    """Return an admission request from its JSON values; `body` is another object in its place."""
    user = request["userInfo"]
    old = request.get("oldObject")
    return AdmissionRequest(
        kind=request["kind"]["kind"],
        group=request["kind"]["group"],
        operation=request["operation"],
        object=body or json.dumps(request["object"]).encode(),
        old_object=None if old is None else json.dumps(old).encode(),
        subresource=request.get("subResource", ""),
        namespace=request["namespace"],
        name=request.get("name", ""),
        user=UserInfo(user.get("username", ""), tuple(user.get("groups") or ())),
    )


def find_gate_codes(rule: ResourceRule, labels: Mapping[str, str], request: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return code and field of each finding of one rule in both phases, the second after the patch of the first."""
    verdicts = _evaluate_phases(PolicySet(rules=(rule,)), labels, request)
    return {finding for verdict in verdicts for finding in _list_findings(verdict)}


def is_denied(policies: PolicySet, labels: Mapping[str, str], request: Mapping[str, Any]) -> bool:
    """Return whether the gate denies a request by all rules together, the second phase after the patch of the first."""
    return any(verdict.problems for verdict in _evaluate_phases(policies, labels, request))


def _evaluate_phases(policies: PolicySet, labels: Mapping[str, str], request: Mapping[str, Any]) -> tuple[Verdict, ...]:
    index = RuleIndex(policies)
    mutated = evaluate_request(create_request(request), index, labels, Phase.MUTATING)
    body = apply_patch(json.dumps(request["object"]).encode(), mutated.patch) if mutated.patch else None
    return mutated, evaluate_request(create_request(request, body), index, labels, Phase.VALIDATING)


def _list_findings(verdict: Verdict) -> Iterator[tuple[str, str]]:
    for problem in (*verdict.problems, *verdict.warnings, *verdict.audits):
        yield problem.code, problem.field


def list_rejections(request: Mapping[str, Any]) -> list[str]:
    """Return the codes for which Kubernetes rejects the resources of an object before it asks admission policies."""
    target = REVIEW_TARGETS[request["kind"]["group"], request["kind"]["kind"]]
    decoded = target.decode(json.dumps(request["object"]).encode())
    return [problem.code for problem in validate_object(decoded, target.list_pods(decoded))]


def compare(
    policies: PolicySet,
    gaps: Sequence[Gap],
    labels: Mapping[str, str],
    request: Mapping[str, Any],
    messages: Mapping[str, str],
) -> Iterator[str]:
    """Yield each difference that no listed gap explains; `messages` are those of the violated admission policies."""
    rejections = list_rejections(request)
    if _NAME_CODES & {*rejections}:
        return
    found: dict[str, set[str]] = {}
    is_cut = any(text.endswith(_CUT) for text in messages.values())
    for text in messages.values():
        listed = [*_ORIGIN.finditer(text)]
        if not listed:
            yield f"no sentence in the message {text!r}"
        for each in listed:
            found.setdefault(each["rule"], set()).add(each["code"])
    for rule in policies.rules:
        of_gate = find_gate_codes(rule, labels, request)
        of_compiled = found.get(rule.name, set())
        for code in sorted(of_compiled - {code for code, _ in of_gate}):
            yield f"rule {rule.name}: {code} by the compiled policy alone"
        of_gate_alone = {finding for finding in of_gate if finding[0] not in of_compiled}
        if not (is_cut or rejections):
            yield from _list_unexplained(rule, of_gate_alone, gaps, request)


def _list_unexplained(
    rule: ResourceRule, findings: Iterable[tuple[str, str]], gaps: Sequence[Gap], request: Mapping[str, Any]
) -> Iterator[str]:
    """Yield each finding of the gate that the compiled policies lack without a gap."""
    subjects = {gap.subject for gap in gaps if gap.policy == f"rule {rule.name}"}
    for code, field in sorted(findings):
        if subjects.isdisjoint(list_gaps(rule, code, field, request)):
            yield f"rule {rule.name}: {code} at {field} by the gate alone"


def list_gaps(rule: ResourceRule, code: str, field: str, request: Mapping[str, Any]) -> Iterator[str]:
    """Yield the subjects of the gaps by which compiled objects may leave out a finding."""
    body = request["object"]
    if _is_large(body):
        yield "checks"
    if code == "TG110" and "[" not in field.rpartition("spec")[2]:
        yield "checks.wholeQuantity"
    if code == "TG104" and rule.checks.requests_equal_limits is Equality.FILL:
        yield "checks.requestsEqualLimits"
    if code == "TG116" and "firstAvailable" in json.dumps(body):
        yield "checks.perClaim"
    if code in {"TG123", "TG124"}:
        yield "checks.activeDeadlineSeconds"
    if code in _BOUNDS and any(amount >= _INEXACT for amount in _list_amounts(body)):
        yield from (f"checks.{_BOUNDS[code]}.{bound}" for bound in ("min", "multipleOf", "oneOf"))
    if code == "TG108" and (_has_pod_level(body) or any(amount.is_beyond_int64 for amount in _list_amounts(body))):
        yield "checks.perPod"


def _list_amounts(value: Any) -> Iterator[Quantity]:
    """Yield all quantities in the lists of an object."""
    if isinstance(value, list):
        for child in value:
            yield from _list_amounts(child)
    elif isinstance(value, dict):
        for key, child in value.items():
            if key in {"requests", "limits", "overhead"} and isinstance(child, dict):
                yield from map(Quantity.parse, child.values())
            else:
                yield from _list_amounts(child)


def _has_pod_level(value: Any) -> bool:
    if isinstance(value, dict):
        is_pod = "containers" in value and bool(value.get("resources"))
        return is_pod or any(_has_pod_level(child) for child in value.values())
    return False


def _is_large(body: Object) -> bool:
    target = REVIEW_TARGETS[body["apiVersion"].rpartition("/")[0] if "/" in body["apiVersion"] else "", body["kind"]]
    decoded = target.decode(json.dumps(body).encode())
    if find_claim(decoded) is not None:
        return False
    text = json.dumps(body)
    return text.count('"image"') > MAX_LISTS or text.count('": "') > MAX_ENTRIES
