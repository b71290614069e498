"""Overlays and the chart as they are meant: a Deployment, called through its Service, by the commands of the pages.

Installed by docs/operate/install.md and docs/reference/installation.md, upgraded and uninstalled by
docs/operate/upgrade.md. The overlay `cert-manager` is in e2e/test_install_cert_manager.py, since it takes cert-manager,
and what `ha` is for in e2e/test_install_replicas.py.
"""

from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from e2e.command_output import run_kubectl
from e2e.helm.build import helm
from e2e.installation.admin_shell import AdminShell
from e2e.installation.install_methods import HelmInstall, InstallMethod, KustomizeInstall
from e2e.installation.installed_checks import (
    create_during,
    exceed_cap,
    fill_cap,
    format_cap,
    is_cap_rejection,
    list_gate_pods,
    read_logs,
    rejects_fraction,
    until_doctor_warns,
    until_it_rejects,
)
from e2e.installation.leftovers import find_leftovers
from e2e.installation.uninstalling import uninstall
from e2e.installation.vacant_cluster import VacantCluster, vacate
from e2e.load import STORED
from e2e.ports import Site

_OWN = "tallygate-system"
_WAYS: tuple[InstallMethod, ...] = (
    KustomizeInstall("standalone"),
    KustomizeInstall("by-hand"),
    KustomizeInstall("ha"),
    HelmInstall("standalone"),
    HelmInstall("ha"),
)


@pytest.fixture(scope="module")
def vacant(site: Site) -> Iterator[VacantCluster]:
    """Yield the cluster without the site's own gate."""
    with vacate(site) as found:
        yield found


@pytest.fixture
def empty(vacant: VacantCluster) -> Iterator[VacantCluster]:
    """Yield the same; uninstall what a failed case has left."""
    yield vacant
    uninstall(vacant.cluster)


@pytest.mark.parametrize("way", _WAYS, ids=str)
def test_an_installation_by_the_pages_enforces_a_cap_is_upgraded_and_uninstalled(
    site: Site, namespace: str, empty: VacantCluster, way: InstallMethod, tmp_path: Path
) -> None:
    cluster, shell = site.cluster, AdminShell(site.cluster, tmp_path, helm if isinstance(way, HelmInstall) else None)
    way.install(shell, empty.image, format_cap(namespace))
    until_it_rejects(cluster)
    before = list_gate_pods(cluster)
    assert len(before) == way.size.replicas
    fill_cap(site, namespace, "first")
    assert is_cap_rejection(exceed_cap(site, namespace))
    if way.size.has_ledgers:
        assert "tried" in run_kubectl(cluster, "get", "capledgers", f"--namespace={_OWN}")
        assert "tried" in shell.run(f"tallygate usage --policies {way.policies}")
    until_doctor_warns(shell, way.size.warnings)

    answers = create_during(site, namespace, lambda: way.upgrade(shell))
    failed = [answer for answer in answers if answer.status != STORED]
    if way.size.has_ledgers:
        assert failed == []
        assert is_cap_rejection(exceed_cap(site, namespace))  # what was counted before is not forgotten
    else:
        assert {each.status for each in failed} <= {HTTPStatus.INTERNAL_SERVER_ERROR}
        until_it_rejects(cluster)
        fill_cap(site, namespace, "second")  # reservations in memory are, as the page says
        assert is_cap_rejection(exceed_cap(site, namespace))
    assert rejects_fraction(cluster)
    assert set(list_gate_pods(cluster)).isdisjoint(before)
    heard = read_logs(cluster).lower()
    assert [word for word in ("forbidden", "traceback") if word in heard] == []

    way.uninstall(shell)
    assert sorted(set(find_leftovers(cluster)) - empty.before) == []
    assert not rejects_fraction(cluster)
