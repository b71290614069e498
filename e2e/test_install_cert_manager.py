"""The overlay `cert-manager` where nodes run it and cert-manager: installed, renewed, upgraded and taken away."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from e2e.cert_manager.certificates import issued, renew_all, trusted_by_all
from e2e.cert_manager.installed import cert_manager_installed
from e2e.cert_manager.running import CERT_MANAGER
from e2e.installation.desk import Desk
from e2e.installation.remains import remains
from e2e.installation.tried import (
    WITHIN,
    cap,
    created_meanwhile,
    fill,
    is_over,
    logged,
    over,
    pods,
    readiness,
    refuses,
    until_doctor_warns,
    until_it_refuses,
)
from e2e.installation.vacated import Vacant, vacated
from e2e.installation.ways import Kustomized
from e2e.kind.cluster import KindCluster
from e2e.load import STORED, Clients
from e2e.pods import pod
from e2e.ports import Cluster, NotHereError, Site
from e2e.said import said
from e2e.waiting import until

_OWN = "--namespace=tallygate-system"


@pytest.fixture
def beside(site: Site, tmp_path: Path) -> Iterator[Vacant]:
    """A cluster in which cert-manager runs, and nothing of the gate does."""
    if not isinstance(site.cluster, KindCluster):
        raise NotHereError("it takes nodes that images can be brought to")
    if CERT_MANAGER.built() is None:
        raise NotHereError("cert-manager is not built here; `python -m e2e.cert_manager` does it, in some minutes")
    with vacated(site) as vacant, cert_manager_installed(site.cluster, tmp_path / "cert-manager"):
        yield vacant


def _serve_it(cluster: Cluster) -> bool:
    """Whether every replica serves with what is issued."""
    served = issued(cluster)
    shown = (readiness(cluster, name).get("certificate", {}) for name in pods(cluster))
    return all(each.get("fingerprint") == served for each in shown)


def _bring(cluster: Cluster) -> None:
    """Wait until the kubelet has brought what is issued: within two minutes, by itself."""
    until("every replica serves with what is issued", partial(_serve_it, cluster), WITHIN, partial(logged, cluster))


def test_with_cert_manager_in_the_cluster_it_is_installed_renewed_upgraded_and_taken_away(
    site: Site, namespace: str, beside: Vacant, tmp_path: Path
) -> None:
    cluster, desk, way = site.cluster, Desk(site.cluster, tmp_path / "desk"), Kustomized("cert-manager")
    way.install(desk, beside.image, cap(namespace))
    ready = said(cluster, "wait", "--for=condition=Ready", "certificates.cert-manager.io", "--all", _OWN)
    assert len(ready.splitlines()) == 2
    until("the injector has filled in whom to trust", partial(trusted_by_all, cluster, 1), WITHIN)
    until_it_refuses(cluster)
    fill(site, namespace, "first")
    assert is_over(over(site, namespace))
    until_doctor_warns(desk, way.size.warned)

    with (
        Clients(cluster, namespace) as clients,
        clients.creating(lambda _: pod(site, f"p-{uuid4().hex}", "0")) as heard,
    ):
        renew_all(cluster, partial(_bring, cluster), heard)
    assert [answer for answer in heard if answer.status != STORED] == []

    answers = created_meanwhile(site, namespace, partial(way.upgrade, desk))
    assert [answer for answer in answers if answer.status != STORED] == []
    assert is_over(over(site, namespace))

    way.uninstall(desk)
    assert sorted(set(remains(cluster)) - beside.before) == []
    assert not refuses(cluster)
