"""The audit and the gate agree about objects of every kind."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from tallygate.cli.app import root
from tallygate.cli.sources.options import load_usable_policies
from tallygate.gate.gate import Gate
from tallygate.policy.load import SHIPPED_POLICIES
from tallygate.review.view import ClusterView
from tallygate.state.in_memory import MemoryLedgers, UnknownNamespaces
from tests.cli.test_agreement import CASES_OF_WORKLOADS, list_denials
from tests.cli.usage.clusters import namespace, write_snapshot

WHERE = "team-a"


def create_stored_object(manifest: dict[str, Any], number: int) -> dict[str, Any]:
    """Return an object as a cluster stores it, with a name of its own."""
    made = deepcopy(manifest)
    made["metadata"] |= {"name": f"o{number}", "uid": f"u{number}", "resourceVersion": f"{number + 10}"}
    if made["kind"] != "Node":
        made["metadata"]["namespace"] = WHERE
    return made


def test_the_gate_and_the_audit_deny_the_same(tmp_path: Path) -> None:
    """Compare codes and fields by the shipped rules, and count the objects that no API server stores."""
    policies = load_usable_policies([SHIPPED_POLICIES])
    gate = Gate(
        policies=lambda: policies,
        view=ClusterView(namespaces=UnknownNamespaces()),
        ledgers=MemoryLedgers(),
        monotonic=lambda: 0.0,
        nonce=lambda: "nonce",
        unix_time=lambda: 0.0,
    )
    objects = [
        create_stored_object(case["object"], number)
        for number, case in enumerate(CASES_OF_WORKLOADS)
        if case["code"] != 400
    ]
    snapshot = write_snapshot(tmp_path, [namespace(WHERE), *objects])
    result = CliRunner().invoke(root, ["audit", "--snapshot", str(snapshot), "-o", "json"])
    assert result.exit_code == 1, result.stderr
    report = json.loads(result.stdout)
    assert report["summary"]["unreadable"] == 0
    assert sum(report["summary"]["objects"].values()) == len(objects)
    found: dict[str, set[tuple[str, str]]] = {each["metadata"]["name"]: set() for each in objects}
    for each in report["findings"]:
        if each["level"] == "error":
            found[each["object"]["name"]].add((each["field"], each["code"]))
    for each in objects:
        assert found[each["metadata"]["name"]] == list_denials(gate, each), each
    assert sum(map(bool, found.values())) > 30
