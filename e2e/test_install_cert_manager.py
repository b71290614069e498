"""The overlay `cert-manager` where nodes run it and cert-manager: installed, renewed, upgraded and uninstalled."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from e2e.cert_manager.certificates import has_authorities_everywhere, read_fingerprint, renew_all
from e2e.cert_manager.installed import install_cert_manager
from e2e.cert_manager.running import CERT_MANAGER
from e2e.command_output import run_kubectl
from e2e.installation.admin_shell import AdminShell
from e2e.installation.install_methods import KustomizeInstall
from e2e.installation.installed_checks import (
    WITHIN,
    create_during,
    exceed_cap,
    fill_cap,
    format_cap,
    is_cap_rejection,
    list_gate_pods,
    read_checks,
    read_logs,
    rejects_fraction,
    until_doctor_warns,
    until_it_rejects,
)
from e2e.installation.leftovers import find_leftovers
from e2e.installation.vacant_cluster import VacantCluster, vacate
from e2e.kind.cluster import KindCluster
from e2e.load import STORED, Clients
from e2e.pods import pod
from e2e.ports import Cluster, NotHereError, Site
from e2e.waiting import until

_OWN = "--namespace=tallygate-system"


@pytest.fixture
def vacant(site: Site, tmp_path: Path) -> Iterator[VacantCluster]:
    """Yield a cluster in which cert-manager runs, and nothing of the gate does."""
    if not isinstance(site.cluster, KindCluster):
        raise NotHereError("it takes nodes that images can be brought to")
    if CERT_MANAGER.find_built() is None:
        raise NotHereError("cert-manager is not built here; `python -m e2e.cert_manager` does it, in some minutes")
    with vacate(site) as vacant, install_cert_manager(site.cluster, tmp_path / "cert-manager"):
        yield vacant


def _serve_it(cluster: Cluster) -> bool:
    """Return whether every replica serves with the issued certificate."""
    served = read_fingerprint(cluster)
    shown = (read_checks(cluster, name).get("certificate", {}) for name in list_gate_pods(cluster))
    return all(each.get("fingerprint") == served for each in shown)


def _bring(cluster: Cluster) -> None:
    """Wait until the kubelet has brought what is issued: within two minutes, by itself."""
    until("every replica serves with what is issued", partial(_serve_it, cluster), WITHIN, partial(read_logs, cluster))


def test_with_cert_manager_in_the_cluster_it_is_installed_renewed_upgraded_and_uninstalled(
    site: Site, namespace: str, vacant: VacantCluster, tmp_path: Path
) -> None:
    cluster, shell, way = site.cluster, AdminShell(site.cluster, tmp_path / "desk"), KustomizeInstall("cert-manager")
    way.install(shell, vacant.image, format_cap(namespace))
    ready = run_kubectl(cluster, "wait", "--for=condition=Ready", "certificates.cert-manager.io", "--all", _OWN)
    assert len(ready.splitlines()) == 2
    until("the injector has filled in the CA bundle", partial(has_authorities_everywhere, cluster, 1), WITHIN)
    until_it_rejects(cluster)
    fill_cap(site, namespace, "first")
    assert is_cap_rejection(exceed_cap(site, namespace))
    until_doctor_warns(shell, way.size.warnings)

    with (
        Clients(cluster, namespace) as clients,
        clients.creating(lambda _: pod(site, f"p-{uuid4().hex}", "0")) as answers_,
    ):
        renew_all(cluster, partial(_bring, cluster), answers_)
    assert [answer for answer in answers_ if answer.status != STORED] == []

    answers = create_during(site, namespace, partial(way.upgrade, shell))
    assert [answer for answer in answers if answer.status != STORED] == []
    assert is_cap_rejection(exceed_cap(site, namespace))

    way.uninstall(shell)
    assert sorted(set(find_leftovers(cluster)) - vacant.before) == []
    assert not rejects_fraction(cluster)
