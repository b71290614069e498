"""The purpose of the component `relay`: the gate's process is killed or hangs, and no create fails."""

from collections.abc import Iterator

import pytest

from e2e.installation.admin_shell import AdminShell
from e2e.installation.install_methods import KustomizeInstall
from e2e.installation.installed_checks import fill_cap, format_cap, until_it_rejects
from e2e.installation.leader_loss import delete_pod, freeze_process, kill_process, record_answers_during
from e2e.installation.pages import read_yaml
from e2e.installation.vacant_cluster import VacantCluster, vacate
from e2e.namespaces import new_namespace
from e2e.ports import Site
from e2e.rolling import find_failed


class _Relayed(KustomizeInstall):
    """Installation by the overlay `ha` with the component, as on the page."""

    def _overlay(self, image: str) -> str:
        shown = read_yaml("install.md", "The relay")[0].splitlines()
        (components,) = (line for line in shown if line.startswith("components:"))
        return f"{super()._overlay(image)}{components}\n"


@pytest.fixture(scope="module")
def vacant(site: Site) -> Iterator[VacantCluster]:
    """Yield the cluster without the site's own gate."""
    with vacate(site) as found:
        yield found


@pytest.fixture(scope="module")
def namespace_with_relays(site: Site, vacant: VacantCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Install two gates with relays; yield a namespace whose pods a cap counts, with an active ledger."""
    shell, way = AdminShell(site.cluster, tmp_path_factory.mktemp("relayed")), _Relayed("ha")
    with new_namespace(site.cluster) as namespace:
        way.install(shell, vacant.image, format_cap(namespace))
        until_it_rejects(site.cluster)
        fill_cap(site, namespace, "first")
        yield namespace
        way.uninstall(shell)


def test_while_the_leaders_process_is_killed_no_create_fails(site: Site, namespace_with_relays: str) -> None:
    answers = record_answers_during(site, namespace_with_relays, kill_process(site.cluster))
    assert find_failed([*answers.during, *answers.after]) == []


def test_while_the_leaders_process_hangs_no_create_fails(site: Site, namespace_with_relays: str) -> None:
    answers = record_answers_during(site, namespace_with_relays, freeze_process(site.cluster))
    assert find_failed([*answers.during, *answers.after]) == []


def test_while_the_leader_is_deleted_no_create_fails(site: Site, namespace_with_relays: str) -> None:
    answers = record_answers_during(site, namespace_with_relays, delete_pod(site.cluster))
    assert find_failed([*answers.during, *answers.after]) == []
