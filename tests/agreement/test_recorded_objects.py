"""Objects that a real API server has answered: check and the audit deny what the gate denies, by the shipped rules."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tallygate.admission.request import Phase
from tallygate.cli.sources.options import load_usable_policies
from tallygate.gate.gate import Gate
from tallygate.policy.load import SHIPPED_POLICIES
from tallygate.review.view import ClusterView
from tallygate.state.in_memory import MemoryLedgers, UnknownNamespaces
from tests.agreement.answers import parse_response, run_command, write_stream
from tests.cli.test_agreement import CASES_OF_WORKLOADS
from tests.cli.usage.clusters import namespace, write_snapshot

Denials = dict[int, set[tuple[str, str]]]
"""Field and code of each cause, by the number of the object."""


@pytest.fixture(scope="module")
def denials() -> Denials:
    """Return what the gate denies."""
    policies = load_usable_policies([SHIPPED_POLICIES])
    gate = Gate(
        policies=lambda: policies,
        view=ClusterView(namespaces=UnknownNamespaces()),
        ledgers=MemoryLedgers(),
        monotonic=lambda: 0.0,
        nonce=lambda: "nonce",
        unix_time=lambda: 0.0,
    )
    found = {number: set(list_denials(gate, case["object"])) for number, case in enumerate(CASES_OF_WORKLOADS)}
    assert sum(map(bool, found.values())) > 30
    return found


def list_denials(gate: Gate, manifest: dict[str, Any]) -> set[tuple[str, str]]:
    """Return field and code of every cause of a denial for the creation of an object."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    request = {
        "uid": "1",
        "kind": {"group": group, "version": version, "kind": manifest["kind"]},
        "resource": {"group": group, "version": version, "resource": manifest["kind"].lower() + "s"},
        "name": manifest["metadata"]["name"],
        "namespace": manifest["metadata"].get("namespace", ""),
        "operation": "CREATE",
        "userInfo": {"username": "you"},
        "object": manifest,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    response = json.loads(gate.admit(json.dumps(review).encode(), Phase.MUTATING, 1.0).body)["response"]
    causes = response.get("status", {}).get("details", {}).get("causes", ())
    codes = [finding.code for finding in parse_response(response) if finding.level == "error"]
    return {(cause["field"], code) for cause, code in zip(causes, codes, strict=True)}


def test_check_denies_what_the_gate_denies(denials: Denials, tmp_path: Path) -> None:
    """Compare codes and fields for objects of every kind."""
    manifests = tmp_path / "all.yaml"
    manifests.write_text(write_stream(case["object"] for case in CASES_OF_WORKLOADS))
    found: Denials = {number: set() for number in denials}
    for finding in run_command("check", str(manifests))["findings"]:
        if finding["by"].startswith("rule "):
            found[finding["document"]].add((finding["field"], finding["code"]))
    assert found == denials


def test_the_audit_finds_what_the_gate_denies(denials: Denials, tmp_path: Path) -> None:
    """Compare codes and fields, and count the objects that no API server stores."""
    decoded = [number for number, case in enumerate(CASES_OF_WORKLOADS) if case["code"] != 400]
    objects = [create_stored_object(CASES_OF_WORKLOADS[number]["object"], number) for number in decoded]
    report = run_command("audit", "--snapshot", str(write_snapshot(tmp_path, [namespace("team-a"), *objects])))
    assert report["summary"]["unreadable"] == 0
    assert sum(report["summary"]["objects"].values()) == len(objects)
    found: Denials = {number: set() for number in decoded}
    for finding in report["findings"]:
        if finding["level"] == "error":
            number = int(finding["object"]["name"].removeprefix("object-"))
            found[number].add((finding["field"], finding["code"]))
    assert found == {number: denials[number] for number in decoded}


def create_stored_object(manifest: dict[str, Any], number: int) -> dict[str, Any]:
    """Return an object as a cluster stores it, with a name of its own."""
    made = deepcopy(manifest)
    made["metadata"] |= {"name": f"object-{number}", "uid": f"u{number}", "resourceVersion": f"{number + 10}"}
    if made["kind"] != "Node":
        made["metadata"]["namespace"] = "team-a"
    return made
