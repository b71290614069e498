"""The scenarios of `tallygate test` without a gate: compiled objects on an API server deny nothing that it allows."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.api import Api, api
from e2e.enforced_policies import mark_policies
from e2e.namespaces import create_named_namespaces
from e2e.ports import Cluster
from e2e.recorded_scenarios import load_folder
from e2e.replayed_scenarios import REPLAYED_DEFAULT, ScenarioReplay
from e2e.sent_users import grant_everything
from e2e.waiting import until
from tests.cli.scenarios.scenario_case import CASES

_EXAMPLES = Path(__file__).parents[1] / "policies" / "examples" / "tests"
_SCENARIOS = {
    "examples": load_folder(_EXAMPLES),
    "cases": [scenario for folder in sorted(CASES.iterdir()) if folder.is_dir() for scenario in load_folder(folder)],
}
_NAMES = {name for scenarios in _SCENARIOS.values() for scenario in scenarios for name in scenario.namespaces}
_CREATED = {"c"}
"""Namespaces that scenarios create in a step."""
_PRIORITY_CLASSES = ("batch", "batch-low")
_LEAST = {"examples": {"compared": 190, "denied by both": 15}, "cases": {"compared": 320, "denied by both": 25}}
_MOST_REJECTED = 8  # of each, by Kubernetes itself
_WITHIN = 120.0  # seconds


@pytest.fixture(scope="module")
def namespaces(cluster: Cluster) -> Iterator[None]:
    """Create the namespaces of all scenarios, in which everybody may do everything."""
    names = sorted((_NAMES | _CREATED | {REPLAYED_DEFAULT}) - {"default"})
    with create_named_namespaces(cluster, names), grant_everything(cluster), _create_priority_classes(cluster):
        yield


@contextmanager
def _create_priority_classes(cluster: Cluster) -> Iterator[None]:
    """Create the priority classes of some pods, which the API server accepts from then on."""
    client, path = api(cluster.kubeconfig), "/apis/scheduling.k8s.io/v1/priorityclasses"
    for name in _PRIORITY_CLASSES:
        client.create(path, {"metadata": {"name": name}, "value": 5})
    try:
        until("pods may have them", lambda: all(_accepts(client, name) for name in _PRIORITY_CLASSES), _WITHIN)
        yield
    finally:
        for name in _PRIORITY_CLASSES:
            client.delete(f"{path}/{name}")


def _accepts(client: Api, priority_class: str) -> bool:
    spec = {"priorityClassName": priority_class, "containers": [{"name": "main", "image": "example.com/image:1"}]}
    path = f"/api/v1/namespaces/{REPLAYED_DEFAULT}/pods"
    return client.ask("POST", path, {"metadata": {"name": "accepted"}, "spec": spec}, query={"dryRun": "All"}).is_done


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("group", _SCENARIOS)
def test_no_request_of_a_scenario_is_denied_by_compiled_objects_alone(
    cluster: Cluster, group: str, record_property: Callable[[str, object], None]
) -> None:
    """Replay each scenario; a denial by the gate that the compiled objects lack has a listed gap of its policy."""
    with mark_policies(cluster) as marker:
        replay = ScenarioReplay(marker)
        for scenario in _SCENARIOS[group]:
            replay.play(scenario)
    record_property("requests", str(replay.counts))
    assert replay.differences == []
    assert replay.counts["rejected by the real API server"] <= _MOST_REJECTED
    assert {name: replay.counts[name] for name, least in _LEAST[group].items() if replay.counts[name] < least} == {}
