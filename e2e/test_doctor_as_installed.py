"""`tallygate doctor` of the gate as the provider runs it: as a Deployment behind a Service, where there is one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from e2e.gates.process import GateProcess
from e2e.ledgers import delete_leases
from e2e.ports import Gate, Site
from e2e.waiting import until
from tallygate.admission.webhook_configuration import ServiceTarget

_ROOT = Path(__file__).parents[1]
_WITHIN = 120.0
_SECONDS = 120.0
_SEEN_IN_PODS = ("replicas", "policies", "watches", "ledgers", "certificate")


def _run_doctor(site: Site) -> dict[str, Any]:
    shown = subprocess.run(  # noqa: S603  ours, and no shell
        [
            sys.executable,
            "-m",
            "tallygate.cli",
            "doctor",
            f"--kubeconfig={site.cluster.kubeconfig}",
            "-o",
            "json",
        ],
        env={**os.environ, **site.cluster.environment, "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    assert shown.returncode in {0, 1}, shown.stderr
    return {each["check"]: each for each in json.loads(shown.stdout)["checks"]}


def test_nothing_fails_of_a_gate_that_was_just_installed(site: Site, gate: Gate) -> None:
    """Check that it is trusted and reached, and that its pods are seen where they are in the cluster.

    A gate that another case has killed in this cluster leaves its Lease.
    """
    if isinstance(site.gate, GateProcess):
        delete_leases(site.cluster, "tallygate-system")

    def failing() -> list[str]:
        return [f"{name}: {each['reason']}" for name, each in _run_doctor(site).items() if each["result"] == "FAIL"]

    until("nothing is FAIL", lambda: not failing(), _WITHIN, lambda: "\n".join(failing()))
    found = _run_doctor(site)
    for name in ("registered", "rules", "conditions", "reachable", "trusted", "exempt", "lockout", "clocks"):
        assert found[name]["result"] == "PASS", found[name]
    if isinstance(gate.reached, ServiceTarget):
        for name in _SEEN_IN_PODS:
            assert found[name]["result"] == "PASS", found[name]
