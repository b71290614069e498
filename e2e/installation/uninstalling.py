"""The uninstallation of the gate as docs/operate/upgrade.md describes it, whatever of it is installed."""

from typing import Final

from e2e.command_output import run_kubectl
from e2e.installation.rendered import KUSTOMIZE, is_registration, render_own_overlay, to_list
from e2e.ledgers import delete_ledgers
from e2e.ports import Cluster
from tallygate.admission.webhook_configuration import CONFIGURATION_NAME, DEFAULT_NAMESPACE

_COMPONENTS: Final = ("ha", "self-signed", "network", "flow-control", "dashboard", "audit", "token")
"""All components whose kinds every cluster knows."""


def uninstall(cluster: Cluster) -> None:
    """Delete the registration, then the pods, the ledgers, and the rest; return once all is deleted.

    Raises:
        ClusterError: if something cannot be deleted; the text is kubectl's.
    """
    registrations = "mutatingwebhookconfiguration,validatingwebhookconfiguration"
    run_kubectl(cluster, "delete", registrations, CONFIGURATION_NAME, "--ignore-not-found")
    if cluster.kubectl("get", "namespace", DEFAULT_NAMESPACE).returncode == 0:
        _empty(cluster)
    rest = [
        each for each in render_own_overlay(cluster, KUSTOMIZE / "base", {}, _COMPONENTS) if not is_registration(each)
    ]
    run_kubectl(cluster, "delete", "--ignore-not-found", "--timeout=240s", "--filename=-", stdin=to_list(rest))


def _empty(cluster: Cluster) -> None:
    """Stop all writers of ledgers, and delete the ledgers: the namespace may be created again at once."""
    own = f"--namespace={DEFAULT_NAMESPACE}"
    if cluster.kubectl("get", "deployment", CONFIGURATION_NAME, own).returncode == 0:
        run_kubectl(cluster, "scale", "deployment", CONFIGURATION_NAME, own, "--replicas=0")
        chosen = "--selector=app.kubernetes.io/component=gate"
        run_kubectl(cluster, "wait", "--for=delete", "pod", chosen, own, "--timeout=240s")
    if cluster.kubectl("get", "customresourcedefinition", "capledgers.tallygate.dev").returncode == 0:
        delete_ledgers(cluster, DEFAULT_NAMESPACE)
