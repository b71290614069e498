"""A gate that registers itself, and the definitions of kinds that come and go meanwhile."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from e2e.api import Object, api
from e2e.gates.process import GateProcess
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Cluster, NotHereError, Site
from e2e.registering import CONFIGURATIONS, unregister
from e2e.service_account import gates_account
from e2e.waiting import until
from tallygate.admission.self_registration import BY_GATE, REGISTRATION_ANNOTATION, URL_ANNOTATION
from tests.admission.plain_configurations import create_plain_configurations

_WITHIN = 120.0


def define(group: str, kind: str, version: str, spec: Object, subresources: Object | None = None) -> Object:
    """Return the definition of a kind with one version and this schema of its spec."""
    singular, schema = kind.lower(), {"type": "object", "properties": {"spec": spec}}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": f"{singular}s.{group}"},
        "spec": {
            "group": group,
            "names": {"plural": f"{singular}s", "singular": singular, "kind": kind, "listKind": f"{kind}List"},
            "scope": "Namespaced",
            "versions": [served | {"subresources": subresources or {}}],
        },
    }


@contextmanager
def run_registering_gate(
    site: Site, folder: Path, policies: Mapping[str, str] = SHIPPED_FILES
) -> Iterator[GateProcess]:
    """Run a gate with the rights of its account; yield it when it has registered itself.

    Raises:
        NotHereError: if the gate of the site does not run as a process here.
    """
    if not isinstance(site.gate, GateProcess):
        raise NotHereError("it is about a gate that runs as a process here")
    account = gates_account(site.cluster, folder, "cluster-access")
    gate = GateProcess(folder / "gate", arguments=("--cluster=kubeconfig", f"--kubeconfig={account}"))
    gate.write_policies(policies)
    gate.start()
    try:
        leave_to_gate(site.cluster, gate)
        until("it has registered itself", lambda: read_registration(gate)["state"] == "complete", _WITHIN, gate.log)
        yield gate
    finally:
        gate.write_policies(SHIPPED_FILES)
        unregister(site.cluster)
        gate.stop()


def leave_to_gate(cluster: Cluster, gate: GateProcess) -> None:
    """Store both webhook configurations without webhooks, and leave them to a gate that is called by URL."""
    for each in create_plain_configurations(gate.reached):
        annotations = {REGISTRATION_ANNOTATION: BY_GATE, URL_ANNOTATION: gate.reached.base}
        empty = each | {"metadata": each["metadata"] | {"annotations": annotations}, "webhooks": []}
        api(cluster.kubeconfig).apply(CONFIGURATIONS[each["kind"]], empty)


def read_registration(gate: GateProcess) -> Object:
    """Return the check of the registration in the readiness of a gate."""
    detail: Object = gate.readiness()["checks"]["registration"]
    return detail
