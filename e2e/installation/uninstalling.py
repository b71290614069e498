"""The gate taken away as docs/upgrade.md says, whoever installed it and however much of it is there."""

from typing import Final

from e2e.installation.rendered import KUSTOMIZE, listed, own_overlay, registers
from e2e.ledgers import forget_ledgers
from e2e.ports import Cluster
from e2e.said import said
from webhook.admission.webhook_configuration import CONFIGURATION_NAME, DEFAULT_NAMESPACE

_COMPONENTS: Final = ("ha", "self-signed", "network", "flow-control", "dashboard", "audit", "token")
"""All whose kinds every cluster knows."""


def uninstall(cluster: Cluster) -> None:
    """First what the API server asks it about, then its pods, its ledgers, and the rest; return once all is gone.

    Raises:
        ClusterError: something does not go; the text is kubectl's.
    """
    registrations = "mutatingwebhookconfiguration,validatingwebhookconfiguration"
    said(cluster, "delete", registrations, CONFIGURATION_NAME, "--ignore-not-found")
    if cluster.kubectl("get", "namespace", DEFAULT_NAMESPACE).returncode == 0:
        _empty(cluster)
    rest = [each for each in own_overlay(cluster, KUSTOMIZE / "base", {}, _COMPONENTS) if not registers(each)]
    said(cluster, "delete", "--ignore-not-found", "--timeout=240s", "--filename=-", stdin=listed(rest))


def _empty(cluster: Cluster) -> None:
    """Nobody writes ledgers any more, and none is left: their finalizers would keep the namespace."""
    own = f"--namespace={DEFAULT_NAMESPACE}"
    if cluster.kubectl("get", "deployment", CONFIGURATION_NAME, own).returncode == 0:
        said(cluster, "scale", "deployment", CONFIGURATION_NAME, own, "--replicas=0")
        chosen = "--selector=app.kubernetes.io/component=gate"
        said(cluster, "wait", "--for=delete", "pod", chosen, own, "--timeout=240s")
    if cluster.kubectl("get", "customresourcedefinition", "capledgers.tallygate.dev").returncode == 0:
        forget_ledgers(cluster, DEFAULT_NAMESPACE)
