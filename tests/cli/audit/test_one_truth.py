"""The audit says of what is stored what the gate says when it is created, for objects of every kind."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from tests.cli.test_one_truth import ALL, refusals
from tests.cli.usage.clusters import namespace, written
from webhook.cli.app import root
from webhook.cli.sources.options import load_usable_policies
from webhook.gate.gate import Gate
from webhook.policy.load import SHIPPED_POLICIES
from webhook.state.in_memory import MemoryLedgers, UnknownNamespaces

WHERE = "team-a"


def stored(manifest: dict[str, Any], number: int) -> dict[str, Any]:
    """An object as a cluster would have stored it, under a name of its own."""
    made = deepcopy(manifest)
    made["metadata"] |= {"name": f"o{number}", "uid": f"u{number}", "resourceVersion": f"{number + 10}"}
    if made["kind"] != "Node":
        made["metadata"]["namespace"] = WHERE
    return made


def test_the_gate_and_the_audit_refuse_the_same(tmp_path: Path) -> None:
    """By the shipped rules: the same codes at the same fields; what no API server could store is counted."""
    policies = load_usable_policies([SHIPPED_POLICIES])
    gate = Gate(
        policies=lambda: policies,
        namespaces=UnknownNamespaces(),
        ledgers=MemoryLedgers(),
        monotonic=lambda: 0.0,
        nonce=lambda: "nonce",
    )
    objects = [stored(case["object"], number) for number, case in enumerate(ALL) if case["code"] != 400]
    snapshot = written(tmp_path, [namespace(WHERE), *objects])
    result = CliRunner().invoke(root, ["audit", "--snapshot", str(snapshot), "-o", "json"])
    assert result.exit_code == 1, result.stderr
    said = json.loads(result.stdout)
    assert said["summary"]["unreadable"] == 0
    assert sum(said["summary"]["objects"].values()) == len(objects)
    found: dict[str, set[tuple[str, str]]] = {each["metadata"]["name"]: set() for each in objects}
    for each in said["findings"]:
        if each["level"] == "error":
            found[each["object"]["name"]].add((each["field"], each["code"]))
    for each in objects:
        assert found[each["metadata"]["name"]] == refusals(gate, each), each
    assert sum(map(bool, found.values())) > 30
