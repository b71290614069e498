"""The charge of a pod whose resize its node rejects, in `usage`, `audit` and `explain pod`: the requested amount."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tallygate.cli.app import root
from tests.cli.usage.clusters import namespace, pod, write_snapshot

CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: cpus}
spec: {namespaces: {include: [team-a]}, hard: {cpu: 4}}
"""


def create_resized_pod(reason: str) -> dict[str, Any]:
    """Return a pod that requests 6 CPUs, of which its node has granted 2, as the reason says."""
    granted = {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}
    status = {
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
        "containerStatuses": [{"name": "main", "resources": granted, "allocatedResources": {"cpu": "2"}}],
    }
    return pod("trainer", {"cpu": "6"}, status=status)


@pytest.mark.parametrize("reason", ["Infeasible", "Deferred"])
def test_each_command_counts_what_the_pod_requests(tmp_path: Path, reason: str) -> None:
    caps, snapshot = tmp_path / "caps.yaml", write_snapshot(tmp_path, [namespace("team-a"), create_resized_pod(reason)])
    caps.write_text(CAP)

    def run(*arguments: str) -> str:
        return CliRunner().invoke(root, [*arguments, "--policies", str(caps)]).stdout

    (line,) = json.loads(run("usage", "--snapshot", str(snapshot), "-o", "json"))["items"]
    assert line["used"] == 6000
    (finding,) = [
        each
        for each in json.loads(run("audit", "--snapshot", str(snapshot), "-o", "json"))["findings"]
        if each["code"] == "TG207"
    ]
    assert "used 6 cpu, hard 4, 2 too much" in finding["message"]
    manifest = tmp_path / "pod.json"
    manifest.write_text(json.dumps(create_resized_pod(reason)))
    (explained,) = json.loads(run("explain", "pod", "-f", str(manifest), "-o", "json"))["items"]
    assert [each["amount"] for each in explained["caps"]] == [6000]
    assert explained["quota"]["requests.cpu"] == ("2" if reason == "Infeasible" else "6")
