"""The purpose of the component `relay`: the gate's process is killed or hangs, and no create fails."""

from collections.abc import Iterator

import pytest

from e2e.image import build_relay_image, temporary_image
from e2e.installation.admin_shell import AdminShell
from e2e.installation.install_methods import KustomizeInstall
from e2e.installation.installed_checks import fill_cap, format_cap, until_it_rejects
from e2e.installation.leader_loss import delete_pod, freeze_process, kill_process, record_answers_during
from e2e.installation.pages import read_yaml
from e2e.installation.vacant_cluster import VacantCluster, vacate
from e2e.installing import image_parts
from e2e.kind.cluster import KindCluster
from e2e.namespaces import new_namespace
from e2e.ports import Site
from e2e.rolling import find_failed


class _Relayed(KustomizeInstall):
    """Installation by the overlay `ha` with the component, as on the page, and with another image of the relay."""

    def __init__(self, relay_image: str) -> None:
        super().__init__("ha")
        self._relay_image = image_parts(relay_image)

    def _overlay(self, image: str) -> str:
        shown = read_yaml("installation.md", "The relay")[0].splitlines()
        (components,) = (line for line in shown if line.startswith("components:"))
        named = ", ".join(f"{key}: {value}" for key, value in self._relay_image.items())
        overlay = super()._overlay(image).replace("images: [", f"images: [{{name: haproxy, {named}}}, ")
        return f"{overlay}{components}\n"


@pytest.fixture(scope="module")
def vacant(site: Site) -> Iterator[VacantCluster]:
    """Yield the cluster without the site's own gate."""
    with vacate(site) as found:
        yield found


@pytest.fixture(scope="module")
def relay_image(site: Site) -> Iterator[str]:
    """Yield the relay's image: one that kind's nodes get from here, and elsewhere the one of the component."""
    if not isinstance(site.cluster, KindCluster):
        yield "haproxy:2.8"
        return
    with temporary_image("tallygate-relay", build_relay_image) as image:
        site.cluster.load(image)
        yield image


@pytest.fixture(scope="module")
def namespace_with_relays(
    site: Site, vacant: VacantCluster, relay_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Install two gates with relays; yield a namespace whose pods a cap counts, with an active ledger."""
    shell, way = AdminShell(site.cluster, tmp_path_factory.mktemp("relayed")), _Relayed(relay_image)
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
