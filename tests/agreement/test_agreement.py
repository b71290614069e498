"""Whatever the policies, the cluster and the new object: gate, check, audit, usage and scenarios agree.

These differences are wanted. Of workloads and caps, `check`
- charges all pods at once, so it also reports what they exceed together: TG202 for their sum,
- reports an error where no pod can ever run, and then nothing about the workload as a whole,
- reports what `workloads: ignore` leaves out,
- reports warnings that the gate leaves out of a denial,
- charges the claims that templates make for a pod with the pod, so it also reports TG202 for both.
What admission rejects of a template's pods is a warning of the gate, and an error of the API server for `check`. The
audit leaves out what depends on the present charges, as the number of pods that can run now, and the claims that
templates make for the pods of a workload.
"""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings

from tallygate.accounting.quantity import Quantity
from tallygate.policy.model import PolicySet
from tests.agreement.answers import (
    Answer,
    Charge,
    Charges,
    Finding,
    GateWorld,
    ScenarioWorld,
    Usage,
    ask_audit,
    ask_check,
    ask_usage,
    parse_policies,
)
from tests.agreement.drawn import CASES, DrawnCase, Object
from tests.effort import examples

_NOT_WORKLOADS = {"Pod", "ResourceClaim", "ResourceClaimTemplate"}
_REJECTED_BY_ADMISSION = {"TG024"}
_OVER_SOFT = "TG202"
_LASTING = {"TG203", "TG204"}
_OVER_CAP = "TG207"
_NOT_WHOLE = "TG215"
_FREE_NOW = re.compile(r", free [^:]+: (at most )?\w+ of them can run now, and ")
_WITH_CLAIMS = re.compile(r" with (its|their) claims ")


@settings(max_examples=examples(80), deadline=None)
@given(CASES)
def test_gate_check_audit_usage_and_scenarios_agree(case: DrawnCase) -> None:
    """Create the object in a gate and in a scenario, check its manifest, and audit the cluster with it."""
    policies = parse_policies(case)
    with TemporaryDirectory() as folder:
        compare_answers(case, policies, Path(folder))


def compare_answers(case: DrawnCase, policies: PolicySet, folder: Path) -> None:
    """Compare the answers about a new object, then the charges and what is stored after it."""
    scenario_world, gate_world = ScenarioWorld(case, policies), GateWorld(case, policies, folder)
    in_scenario = scenario_world.create(case.created)
    at_gate = gate_world.create({**case.created, "metadata": case.created["metadata"] | _read_uid(in_scenario)})
    assert in_scenario.rejected_by == at_gate.rejected_by
    assert in_scenario.findings == {finding for finding in at_gate.findings if finding.level != "note"}
    checked = ask_check(case, folder)
    compare_with_check(case, at_gate, checked)
    made = scenario_world.run_controllers()
    for body in made:
        assert not gate_world.create(body).rejected_by, body
    charges = scenario_world.read_charges()
    assert gate_world.read_charges() == charges
    is_forecast = any(finding.policy.startswith("cap ") and finding.code != _OVER_SOFT for finding in checked.findings)
    if case.created["kind"] != "CronJob" and not is_forecast:
        assert checked.charges == charges
    if at_gate.rejected_by != "the API server":
        cluster = DrawnCase(case.policies, (*case.stored, at_gate.body, *made), case.created)
        of_object, of_caps = ask_audit(cluster, folder)
        compare_with_audit(at_gate, of_object)
        if not at_gate.rejected_by:
            usages = ask_usage(cluster, folder)
            compare_with_usage(cluster, usages, charges)
            over = {
                (f"cap {usage.cap}", usage.name, usage.used)
                for usage in usages
                if usage.hard is not None and usage.hard < usage.used
            }
            assert {_read_excess(finding) for finding in of_caps if finding.code == _OVER_CAP} == over


def _read_uid(answer: Answer) -> Object:
    return {"uid": answer.body["metadata"]["uid"]} if answer.body else {}


def is_workload(case: DrawnCase) -> bool:
    """Return whether the new object is one from which controllers make pods."""
    return case.created["kind"] not in _NOT_WORKLOADS


def compare_with_check(case: DrawnCase, at_gate: Answer, checked: Answer) -> None:
    """Compare the findings of the gate with those of `check`."""
    gate_findings = {finding for finding in at_gate.findings if finding.policy}
    if not is_workload(case):
        assert checked.rejected_by == at_gate.rejected_by
        pod_claims = at_gate.body["spec"].get("resourceClaims", ())
        if any("resourceClaimTemplateName" in claim for claim in pod_claims):
            assert drop_code(checked.findings, _OVER_SOFT) == drop_code(gate_findings, _OVER_SOFT)
        else:
            assert checked.findings == gate_findings
        return
    assert select_kind(checked.findings, "rule") == select_kind(gate_findings, "rule")
    if at_gate.rejected_by == "the API server" or any(
        finding.level == "error" for finding in select_kind(gate_findings, "rule")
    ):
        assert checked.rejected_by == at_gate.rejected_by
        return
    if any(finding.code in _REJECTED_BY_ADMISSION for finding in at_gate.findings):
        assert checked.rejected_by == "the API server"
        return
    ignoring = {
        f"cap {policy['metadata']['name']}" for policy in case.policies if policy["spec"].get("workloads") == "ignore"
    }
    of_gate = {finding._replace(level="") for finding in select_kind(gate_findings, "cap")}
    of_check = {finding._replace(level="") for finding in select_kind(checked.findings, "cap")}
    errors = {finding for finding in select_kind(checked.findings, "cap") if finding.level == "error"}
    if drop_code(errors, _NOT_WHOLE):
        of_gate = drop_code(of_gate, _NOT_WHOLE) | (of_gate & of_check)
    assert of_gate <= of_check
    assert at_gate.rejected_by or all(
        finding.policy in ignoring or finding.code == _OVER_SOFT for finding in of_check - of_gate
    )


def select_kind(findings: set[Finding], kind: str) -> set[Finding]:
    """Return the findings that policies of a kind report."""
    return {finding for finding in findings if finding.policy.startswith(f"{kind} ")}


def drop_code(findings: set[Finding], code: str) -> set[Finding]:
    """Return the findings with another code."""
    return {finding for finding in findings if finding.code != code}


def compare_with_usage(cluster: DrawnCase, usages: list[Usage], charges: Charges) -> None:
    """Compare the charges with what usage counts in the cluster afterwards."""
    used = {(usage.cap, usage.namespace, usage.group, usage.name): usage.used for usage in usages}
    definitions = {policy["metadata"]["name"]: policy["spec"] for policy in cluster.policies}
    labels = {
        body["metadata"]["name"]: body["metadata"]["labels"] for body in cluster.stored if body["kind"] == "Namespace"
    }
    for charge, amount in charges.items():
        assert used[_find_line(charge, definitions[charge.cap], labels[charge.namespace])] == amount, charge


def _find_line(charge: Charge, spec: Object, labels: Object) -> tuple[str, str, str, str]:
    """Return the key of the line of usage in which a charge is counted."""
    if "groupBy" in spec:
        label = spec["groupBy"]["label"]
        return charge.cap, "", f"{label}={labels[label]}", charge.name
    return charge.cap, "" if spec.get("shared") else charge.namespace, "", charge.name


def _read_excess(finding: Finding) -> tuple[str, str, Quantity]:
    """Return the cap, the name and the used amount of an exceeded cap; two namespaces may have the same."""
    amount, _, name = finding.message.partition("exceeded: used ")[2].partition(",")[0].partition(" ")
    return finding.policy, name, Quantity.parse(amount)


def compare_with_audit(at_gate: Answer, audited: set[Finding]) -> None:
    """Compare the findings of the gate with those of the audit of the same object, stored whatever the gate answers.

    Of the findings of caps the audit has those that last, and all of them if no rule rejects the object.
    """
    assert select_kind(audited, "rule") == select_kind(at_gate.findings, "rule")
    if not any(finding.level == "error" for finding in select_kind(at_gate.findings, "rule")):
        of_caps = select_kind(at_gate.findings, "cap")
        if any(_WITH_CLAIMS.search(finding.message) for finding in of_caps):
            return
        lasting = {_drop_free(finding) for finding in of_caps if finding.code in _LASTING}
        assert lasting <= select_kind(audited, "cap")
        assert at_gate.rejected_by or select_kind(audited, "cap") <= set(map(_drop_free, of_caps))


def _drop_free(finding: Finding) -> Finding:
    """Return the finding with the number of pods that can run at a time, without that of the present."""
    if not _FREE_NOW.search(finding.message):
        return finding
    message = _FREE_NOW.sub(r": \1", finding.message).replace(" at a time", " of them can run at a time")
    return finding._replace(message=message)
