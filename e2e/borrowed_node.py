"""A node of an existing cluster: chosen, borrowed for the suite, and returned as it was."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from e2e.errors import ClusterError, UnfitError
from e2e.node_resources import DONGLES, advertise, read_advertised
from e2e.ports import AdvertisedResources, Cluster

_FAKE = "kwok.x-k8s.io/node"  # the annotation of a node whose kubelet is simulated, and which pulls nothing
_ANY_IMAGE = "example.com/none:1"
_PAUSE = re.compile(r"/pause[:@]")

Node = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BorrowedNode:
    """A node that takes pods, what it advertised before, and an image that it has, whose containers stay."""

    node: str
    own: AdvertisedResources
    image: str


@contextmanager
def borrow_node(cluster: Cluster) -> Iterator[BorrowedNode]:
    """Yield a node with four dongles; afterwards it advertises what it did before.

    Raises:
        UnfitError: if no node takes pods, or has such an image.
        ClusterError: if the nodes cannot be read or changed; the text is kubectl's.
    """
    node, image = _choose(_nodes(cluster))
    before = read_advertised(cluster, node)
    try:
        advertise(cluster, node, before | DONGLES)
        yield BorrowedNode(node, before, image)
    finally:
        advertise(cluster, node, before)


def _choose(nodes: list[Node]) -> tuple[str, str]:
    """Return the names of a node and an image; a node with dongles comes first: cases count on four of them in all."""
    nodes = sorted(nodes, key=_has_dongles, reverse=True)
    fit = [(node, image) for node in nodes if _takes_pods(node) for image in _images(node)]
    if not fit:
        raise UnfitError(
            "no node of the cluster is Ready, takes pods without a toleration, and lists among its images one called "
            "`pause`, of which the cases' containers are made; let one be so"
        )
    node, image = fit[0]
    names = [each["metadata"]["name"] for each in nodes if _has_dongles(each) and each is not node]
    if names:
        raise UnfitError(f"other nodes than the one for the cases have example.com/dongle, which they count: {names}")
    return node["metadata"]["name"], image


def _nodes(cluster: Cluster) -> list[Node]:
    done = cluster.kubectl("get", "nodes", "--output=json")
    if done.returncode:
        raise ClusterError(f"kubectl get nodes: {done.stderr.strip()}")
    items: list[Node] = json.loads(done.stdout)["items"]
    return items


def _has_dongles(node: Node) -> bool:
    return not DONGLES.keys().isdisjoint(node["status"].get("capacity", {}))


def _takes_pods(node: Node) -> bool:
    conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", [])}
    effects = {each["effect"] for each in node["spec"].get("taints", [])}
    return conditions.get("Ready") == "True" and effects <= {"PreferNoSchedule"}


def _images(node: Node) -> Iterator[str]:
    """Images whose containers stay; tags before digests, because people read them."""
    if _FAKE in node["metadata"].get("annotations", {}):
        yield _ANY_IMAGE
    names = (name for image in node["status"].get("images", []) for name in image.get("names", []))
    yield from sorted((name for name in names if _PAUSE.search(name)), key=lambda name: "@" in name)
