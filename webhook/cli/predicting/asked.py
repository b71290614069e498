"""What a command is asked about: the manifests of its files, and a cluster with or without nodes that are not there."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec

from webhook.cli.cluster.source import ClusterSource
from webhook.cli.command import UsageError
from webhook.cli.intake import load_manifests
from webhook.cli.manifest.bounds import DEFAULT
from webhook.cli.manifest.fault import Fault
from webhook.cli.manifest.objects import Manifest
from webhook.cli.predicting import what_if, world
from webhook.cli.predicting.candidates import PodsToPlace, create_pods_to_place
from webhook.cli.predicting.world import ClusterInput
from webhook.cli.progress import track_files


def read_manifests(filenames: Sequence[str]) -> list[Manifest]:
    """Every object of files, folders and stdin.

    Raises:
        Misuse: something there cannot be read.
    """
    loaded = load_manifests(tuple(filenames), sys.stdin.buffer, DEFAULT, track_files)
    if loaded.findings:
        raise UsageError("\n".join(f"{finding.location}: {finding.message}" for finding in loaded.findings))
    return loaded.manifests


def read_pods_to_place(filenames: Sequence[str], namespace: str, count: int | None) -> list[PodsToPlace]:
    """What the files would put on nodes.

    Raises:
        Misuse: something there cannot be read, or there is nothing of the kind.
    """
    all_pods = list(_parse_manifests(read_manifests(filenames), namespace, count))
    if not all_pods:
        raise UsageError(f"{', '.join(filenames)}: there is no pod in it, and nothing that holds a pod template")
    return all_pods


def _parse_manifests(manifests: Sequence[Manifest], namespace: str, count: int | None) -> Iterator[PodsToPlace]:
    for manifest in manifests:
        try:
            yield from create_pods_to_place([manifest], namespace, count, DEFAULT)
        except Fault as error:
            location = f"{manifest.file}:{error.place.line}:{error.place.column}"
            raise UsageError(f"{location}: {error.message}") from error
        except msgspec.ValidationError as error:
            location = f"{manifest.file}:{manifest.node.place.line}:{manifest.node.place.column}"
            raise UsageError(
                f"{location}: {manifest.kind} {manifest.name}: {error}; the API server could not decode this"
            ) from error


def is_placed(pods: PodsToPlace) -> bool:
    """Whether it is a pod that was read from a cluster and has its node there, which is then told on stderr."""
    meta, spec = pods.pod.metadata, pods.pod.spec
    node = spec.node_name if spec else None
    if not (meta and meta.uid and node):
        return False
    click.echo(f"tallygate: {pods.subject} is on node {node} already, and is passed over", err=True)
    return True


def find_pending_pod(reference: str, namespace: str, cluster_input: ClusterInput) -> PodsToPlace:
    """A pod of the cluster that has no node yet, by `pod/NAME`.

    Raises:
        Misuse: there is none of that name.
    """
    kind, _, name = reference.rpartition("/")
    if kind not in ("pod", "pods", "po") or not name:
        raise UsageError(f"{reference}: name a pod that waits for a node as pod/NAME, or a file of manifests behind -f")
    pod = cluster_input.pending_pods.get((namespace, name))
    if pod is None:
        raise UsageError(f"{reference}: {_explain_missing_pod(name, namespace, cluster_input)}")
    return PodsToPlace.from_pod(pod, namespace, name)


def _explain_missing_pod(name: str, namespace: str, cluster_input: ClusterInput) -> str:
    for pod_info in cluster_input.cluster.list_pods():
        if (pod_info.namespace, pod_info.name) == (namespace, name) and pod_info.node:
            return f"it is on node {pod_info.node} already"
    waiting = sorted(
        f"{pod_name} --namespace {pod_namespace}" for pod_namespace, pod_name in cluster_input.pending_pods
    )
    hint = f"; those that do are {', '.join(waiting[:10])}" if waiting else "; none does"
    return f"no pod of that name in namespace {namespace} waits for a node{hint}"


def read_cluster_input(
    source: ClusterSource, nodes: Sequence[Path] = (), added_nodes: Sequence[str] = ()
) -> ClusterInput:
    """The cluster, and the nodes of these files and texts as if they were there; what is left out is told on stderr.

    Raises:
        TallygateError: it cannot be read, or what is to be there is written wrongly.
    """
    cluster_input = world.read_cluster(source)
    for omission in cluster_input.omissions:
        click.echo(f"tallygate: {omission}", err=True)
    for path in nodes:
        try:
            what_if.put_nodes(cluster_input.cluster, read_manifests([str(path)]), DEFAULT)
        except Fault as fault:
            raise UsageError(f"{path}:{fault.place.line}:{fault.place.column}: {fault.message}") from fault
    for number, option_value in enumerate(added_nodes, 1):
        what_if.add_nodes(cluster_input.cluster, option_value, number, DEFAULT)
    return cluster_input
