"""`helm test`: the permissions of its ServiceAccount suffice for every check of `tallygate doctor`."""

import json
from pathlib import Path

import yaml

from e2e.command_output import run_kubectl, run_tallygate
from e2e.gates.process import GateProcess
from e2e.installation.rendered import CHART, run_helm
from e2e.ports import Cluster, Gate, NotHereError, Site
from e2e.service_account import as_service_account, gates_account
from e2e.waiting import until

_OWN = "tallygate-system"
_NEEDED = ("registered", "reachable", "workload-kinds")
_WITHIN = 60.0  # seconds until the API server knows the permissions


def _render(cluster: Cluster, template: str) -> str:
    own = f"--namespace={_OWN}"
    return run_helm(cluster, "template", "gate", str(CHART), own, f"--show-only=templates/{template}.yaml")


def _render_mounted_policies(cluster: Cluster) -> str:
    """Return the Deployment of the chart, without replicas, and the ConfigMap that it mounts."""
    deployment = yaml.safe_load(_render(cluster, "deployment"))
    deployment["spec"]["replicas"] = 0
    return f"{_render(cluster, 'policies')}\n---\n{yaml.safe_dump(deployment)}"


def _list_refused(cluster: Cluster, kubeconfig: Path) -> list[str]:
    """Return the checks that the ServiceAccount may not make, and those that must pass and do not, with the reason."""
    shown = run_tallygate(cluster, "doctor", "-o", "json", environment={"KUBECONFIG": str(kubeconfig)})
    checks = json.loads(shown.stdout)["checks"]
    return [
        f"{each['check']}: {each['reason']}"
        for each in checks
        if "forbidden" in each["reason"] or (each["check"] in _NEEDED and each["result"] != "PASS")
    ]


def test_every_check_of_doctor_may_be_made_with_the_permissions_of_helm_test(
    site: Site, gate: Gate, tmp_path: Path
) -> None:
    """Run the command here with the account's token; the pod is tried by the server, since no node runs it."""
    if not isinstance(gate, GateProcess):
        raise NotHereError("the gate that runs there is an installed one, which `helm test` itself checks")
    cluster = site.cluster
    gates_account(cluster, tmp_path, "cluster-access")
    manifest = f"{_render(cluster, 'tests/rbac')}\n---\n{_render_mounted_policies(cluster)}"
    run_kubectl(cluster, "apply", "--filename=-", stdin=manifest)
    try:
        run_kubectl(cluster, "create", "--dry-run=server", "--filename=-", stdin=_render(cluster, "tests/doctor"))
        kubeconfig = as_service_account(cluster, _OWN, "tallygate-test", tmp_path / "tester")

        def list_refused() -> list[str]:
            return _list_refused(cluster, kubeconfig)

        until("every check is made", lambda: not list_refused(), _WITHIN, lambda: "\n".join(list_refused()))
    finally:
        run_kubectl(cluster, "delete", "--filename=-", stdin=manifest)
