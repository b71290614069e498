"""Pods with too many constraints on nodes and other pods, which check does not evaluate."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from tallygate.cli.app import root

_RULE = """\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: capacity}
spec: {resources: ["*"], checks: {advertised: true, schedulable: not-now}}
"""


def test_a_pod_over_the_complexity_limit_gets_a_note(tmp_path: Path) -> None:
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"pods": "110"}}}
    (tmp_path / "now.json").write_text(json.dumps({"kind": "List", "items": [node]}))
    (tmp_path / "capacity.yaml").write_text(_RULE)
    terms = [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": str(number)}}} for number in range(100)]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    spec: dict[str, Any] = {"containers": [{"name": "a", "image": "a"}], "affinity": affinity}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    files = ("--policies", str(tmp_path / "capacity.yaml"), "--snapshot", str(tmp_path / "now.json"))
    result = CliRunner().invoke(root, ["check", "-o", "json", *files, "-"], input=json.dumps(body))
    (finding,) = json.loads(result.stdout)["findings"]
    assert (result.exit_code, finding["code"]) == (0, "TG408")
    assert finding["message"].startswith(
        "rule capacity was not evaluated: the pod's constraints on nodes and other pods are too"
    )
