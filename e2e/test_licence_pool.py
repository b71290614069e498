"""A pool of licences for all nodes, as devices of a ResourceSlice: a pod for each runs, and the others wait.

The objects are those of the page docs/tasks/licence-pool.md.
"""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from e2e.api import Object, api
from e2e.claims import is_placed, requesting_pod
from e2e.command_output import run_tallygate
from e2e.ports import Site
from e2e.waiting import until

_WITHIN = 120.0  # seconds
_LICENCE = "licences.example.com/simulator"
_PAGE = Path(__file__).parents[1] / "docs" / "tasks" / "licence-pool.md"


def _read_objects() -> list[Object]:
    """Return the objects of the page."""
    (block,) = [
        each.split("```")[0]
        for each in _PAGE.read_text().split("```yaml\n")
        if each.startswith("# licence-devices.yaml")
    ]
    return list(yaml.safe_load_all(block))


@pytest.fixture
def two_licences(site: Site, namespace: str) -> Iterator[str]:
    """Yield a namespace, while the cluster has two licences for all nodes."""
    ours, objects = api(site.cluster.kubeconfig), _read_objects()
    for each in objects:
        ours.create(ours.collection(each, ""), each)
    yield namespace
    ours.delete(f"/api/v1/namespaces/{namespace}/pods", gracePeriodSeconds="0")
    for each in objects:
        ours.delete(f"{ours.collection(each, '')}/{each['metadata']['name']}")


def _read_message(site: Site, namespace: str, name: str) -> str:
    status = api(site.cluster.kubeconfig).get(f"/api/v1/namespaces/{namespace}/pods/{name}")["status"]
    conditions = [each for each in status.get("conditions", ()) if each["type"] == "PodScheduled"]
    return str(conditions[0].get("message", "")) if conditions else ""


def test_as_many_pods_run_as_the_site_has_licences_and_the_next_waits_as_predicted(
    site: Site, two_licences: str, tmp_path: Path
) -> None:
    names = ("first", "second", "third")
    pods = [requesting_pod(site.image, name, {_LICENCE: "1"}) for name in names]
    (tmp_path / "pods.json").write_text("\n".join(map(json.dumps, pods)))
    options = ("-n", two_licences, "-o", "json", "--kubeconfig", str(site.cluster.kubeconfig))
    found = run_tallygate(site.cluster, "predict", str(tmp_path / "pods.json"), *options)
    predictions = json.loads(found.stdout)["items"]
    assert [each["verdict"] for each in predictions] == ["fits now", "fits now", "not now"], found.stderr
    ours, path = api(site.cluster.kubeconfig), f"/api/v1/namespaces/{two_licences}/pods"
    for name, body in zip(names[:2], pods[:2], strict=True):
        ours.create(path, body)
        until(f"{name} is placed", partial(is_placed, site.cluster, two_licences, name), _WITHIN)
    ours.create(path, pods[2])
    until("the scheduler has tried the third", lambda: bool(_read_message(site, two_licences, "third")), _WITHIN)
    assert _read_message(site, two_licences, "third") == predictions[2]["message"]
    ours.delete(f"{path}/first", gracePeriodSeconds="0")
    until("the third has the licence", lambda: is_placed(site.cluster, two_licences, "third"), _WITHIN)
