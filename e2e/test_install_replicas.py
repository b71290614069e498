"""The purpose of the overlay `ha`: a replica is deleted or killed while clients create pods; readiness shows all."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

import pytest

from e2e.installation.admin_shell import AdminShell
from e2e.installation.install_methods import KustomizeInstall
from e2e.installation.installed_checks import fill_cap, format_cap, list_gate_pods, rejects_fraction, until_it_rejects
from e2e.installation.leader_loss import (
    ClientAnswers,
    delete_pod,
    kill_process,
    record_answers_during,
    until_replicas_ready,
)
from e2e.installation.pages import read_commands
from e2e.installation.vacant_cluster import VacantCluster, vacate
from e2e.load import CLIENTS, STORED, Answer, Clients
from e2e.namespaces import new_namespace
from e2e.ports import Site
from e2e.rolling import find_failed

_OWN = "--namespace=tallygate-system"


@dataclass(frozen=True, slots=True)
class Ha:
    """The gate by the overlay `ha`, and a namespace whose pods its cap counts."""

    shell: AdminShell
    namespace: str


@pytest.fixture(scope="module")
def vacant(site: Site) -> Iterator[VacantCluster]:
    """Yield the cluster without the site's own gate."""
    with vacate(site) as found:
        yield found


@pytest.fixture(scope="module")
def ha(site: Site, vacant: VacantCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ha]:
    """Install it as the page says, with an active ledger."""
    shell, way = AdminShell(site.cluster, tmp_path_factory.mktemp("ha")), KustomizeInstall("ha")
    with new_namespace(site.cluster) as namespace:
        way.install(shell, vacant.image, format_cap(namespace))
        until_it_rejects(site.cluster)
        fill_cap(site, namespace, "first")
        yield Ha(shell, namespace)
        way.uninstall(shell)


def _find_lost(site: Site, ha: Ha, answers: ClientAnswers) -> list[Answer]:
    """Return the failed creates: answered with a fault of the cluster, and stored by a retry."""
    lost = find_failed(answers.during)
    assert find_failed(answers.after) == []
    assert {each.status for each in lost} <= {HTTPStatus.INTERNAL_SERVER_ERROR}
    with Clients(site.cluster, ha.namespace) as clients:
        assert {clients.create_one(each.pod).status for each in lost} <= {STORED}
    return lost


def test_a_replica_that_is_deleted_leaves_another_that_refuses(site: Site, ha: Ha) -> None:
    until_replicas_ready(site.cluster)
    ha.shell.run(f"kubectl {_OWN} delete pod {list_gate_pods(site.cluster)[0]} --wait=false")
    assert all(rejects_fraction(site.cluster) for _ in range(20))


def test_while_the_leader_is_deleted_no_create_fails(site: Site, ha: Ha) -> None:
    assert _find_lost(site, ha, record_answers_during(site, ha.namespace, delete_pod(site.cluster))) == []


def test_a_leader_that_is_deleted_by_force_loses_only_the_requests_under_way(site: Site, ha: Ha) -> None:
    """Show that it still gets SIGTERM, and a second or two for the requests under way."""
    forced = delete_pod(site.cluster, "--force", "--grace-period=0")
    assert len(_find_lost(site, ha, record_answers_during(site, ha.namespace, forced))) <= CLIENTS


def test_a_leader_that_is_killed_loses_requests_until_the_kubelet_has_noticed(site: Site, ha: Ha) -> None:
    """Kill it as the kernel does, for want of memory. Until then the Service leads there; the other serves on."""
    _find_lost(site, ha, record_answers_during(site, ha.namespace, kill_process(site.cluster)))


def test_the_runbook_shows_the_readiness_of_every_replica(site: Site, ha: Ha) -> None:
    until_replicas_ready(site.cluster)
    (command,) = (each for each in read_commands("runbook.md", "By what is seen")[0] if "readyz" in each)
    readiness_by_pod = dict(re.findall(r"^pod/(\S+)\n(\{.*\})$", ha.shell.run(command), re.MULTILINE))
    assert sorted(readiness_by_pod) == list_gate_pods(site.cluster)
    checks = [json.loads(text)["checks"] for text in readiness_by_pod.values()]
    assert [each["leader-election"]["leader"] for each in checks].count(True) == 1
