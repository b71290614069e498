"""What the component `relay` is for: the gate's process is killed or hangs, and no create fails."""

from collections.abc import Iterator

import pytest

from e2e.installation.desk import Desk
from e2e.installation.going import delete, hold_up, kill, while_the_leader_goes
from e2e.installation.pages import written
from e2e.installation.tried import cap, fill, until_it_refuses
from e2e.installation.vacated import Vacant, vacated
from e2e.installation.ways import Kustomized
from e2e.namespaces import new_namespace
from e2e.ports import Site
from e2e.rolling import failed


class _Relayed(Kustomized):
    """By the overlay `ha` with the component, as the page has it."""

    def _overlay(self, image: str) -> str:
        shown = written("install.md", "The relay")[0].splitlines()
        (components,) = (line for line in shown if line.startswith("components:"))
        return f"{super()._overlay(image)}{components}\n"


@pytest.fixture(scope="module")
def vacant(site: Site) -> Iterator[Vacant]:
    """The cluster without the site's own gate."""
    with vacated(site) as found:
        yield found


@pytest.fixture(scope="module")
def relayed(site: Site, vacant: Vacant, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two gates with relays, and a namespace whose pods a cap counts, with an open ledger."""
    desk, way = Desk(site.cluster, tmp_path_factory.mktemp("relayed")), _Relayed("ha")
    with new_namespace(site.cluster) as namespace:
        way.install(desk, vacant.image, cap(namespace))
        until_it_refuses(site.cluster)
        fill(site, namespace, "first")
        yield namespace
        way.uninstall(desk)


def test_while_the_leaders_process_is_killed_no_create_fails(site: Site, relayed: str) -> None:
    heard = while_the_leader_goes(site, relayed, kill(site.cluster))
    assert failed([*heard.meanwhile, *heard.afterwards]) == []


def test_while_the_leaders_process_hangs_no_create_fails(site: Site, relayed: str) -> None:
    heard = while_the_leader_goes(site, relayed, hold_up(site.cluster))
    assert failed([*heard.meanwhile, *heard.afterwards]) == []


def test_while_the_leader_is_deleted_no_create_fails(site: Site, relayed: str) -> None:
    heard = while_the_leader_goes(site, relayed, delete(site.cluster))
    assert failed([*heard.meanwhile, *heard.afterwards]) == []
