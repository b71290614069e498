"""Stored LimitRanges: one that gives containers devices is a warning, and its defaults count in forecasts."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from tallygate.cli.app import root
from tests.cli.usage.clusters import GPU, Object, namespace, write_snapshot

CAP = (
    "apiVersion: tallygate.dev/v1alpha1\nkind: NamespaceCap\nmetadata: {name: gpus}\n"
    f"spec: {{hard: {{{GPU}: 1}}, workloads: deny}}\n"
)
METADATA = {"namespace": "team-a", "uid": "u", "resourceVersion": "7"}


def audit(folder: Path, *items: Object) -> list[dict[str, Any]]:
    """Return the findings of an audit of a snapshot with these objects."""
    (folder / "caps.yaml").write_text(CAP)
    snapshot = write_snapshot(folder, [namespace("team-a"), *items])
    arguments = ["audit", "--snapshot", str(snapshot), "--policies", str(folder / "caps.yaml"), "-o", "json"]
    found: list[dict[str, Any]] = json.loads(CliRunner().invoke(root, arguments).stdout)["findings"]
    return found


def test_a_limit_range_that_gives_devices_is_a_warning_and_its_pods_count(tmp_path: Path) -> None:
    limits = [{"type": "Container", "max": {GPU: "1"}}]
    limit_range: Object = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {**METADATA, "name": "at-most-one"},
        "spec": {"limits": limits},
    }
    spec = {"replicas": 2, "template": {"spec": {"containers": [{"name": "web"}]}}}
    web: Object = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {**METADATA, "name": "web"}, "spec": spec}
    findings = {
        each["object"]["name"]: (each["level"], each["code"], each["by"]) for each in audit(tmp_path, web, limit_range)
    }
    assert findings == {"at-most-one": ("warning", "TG069", "check"), "web": ("error", "TG204", "cap gpus")}
