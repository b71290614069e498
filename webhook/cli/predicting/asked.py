"""What a command is asked about: the manifests of its files, and a cluster with or without nodes that are not there."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec

from webhook.cli.cluster.source import Source
from webhook.cli.command import Misuse
from webhook.cli.intake import take_in
from webhook.cli.manifest.bounds import DEFAULT
from webhook.cli.manifest.fault import Fault
from webhook.cli.manifest.objects import Manifest
from webhook.cli.predicting import what_if, world
from webhook.cli.predicting.candidates import Candidate, candidates
from webhook.cli.predicting.world import World
from webhook.cli.progress import reading


def manifests_in(filenames: Sequence[str]) -> list[Manifest]:
    """Every object of files, folders and stdin.

    Raises:
        Misuse: something there cannot be read.
    """
    intake = take_in(tuple(filenames), sys.stdin.buffer, DEFAULT, reading)
    if intake.findings:
        raise Misuse("\n".join(f"{finding.place}: {finding.message}" for finding in intake.findings))
    return intake.manifests


def candidates_in(filenames: Sequence[str], namespace: str, copies: int | None) -> list[Candidate]:
    """What the files would put on nodes.

    Raises:
        Misuse: something there cannot be read, or there is nothing of the kind.
    """
    found = list(_candidates(manifests_in(filenames), namespace, copies))
    if not found:
        raise Misuse(f"{', '.join(filenames)}: there is no pod in it, and nothing that holds a pod template")
    return found


def _candidates(manifests: Sequence[Manifest], namespace: str, copies: int | None) -> Iterator[Candidate]:
    for manifest in manifests:
        try:
            yield from candidates([manifest], namespace, copies, DEFAULT)
        except Fault as fault:
            place = f"{manifest.file}:{fault.place.line}:{fault.place.column}"
            raise Misuse(f"{place}: {fault.message}") from fault
        except msgspec.ValidationError as error:
            place = f"{manifest.file}:{manifest.node.place.line}:{manifest.node.place.column}"
            raise Misuse(
                f"{place}: {manifest.kind} {manifest.name}: {error}; the API server could not decode this"
            ) from error


def is_placed(candidate: Candidate) -> bool:
    """Whether it is a pod that was read from a cluster and has its node there, which is then told on stderr."""
    meta, spec = candidate.pod.metadata, candidate.pod.spec
    node = spec.node_name if spec else None
    if not (meta and meta.uid and node):
        return False
    click.echo(f"tallygate: {candidate.subject} is on node {node} already, and is passed over", err=True)
    return True


def pending(named: str, namespace: str, known: World) -> Candidate:
    """A pod of the cluster that has no node yet, by `pod/NAME`.

    Raises:
        Misuse: there is none of that name.
    """
    kind, _, name = named.rpartition("/")
    if kind not in ("pod", "pods", "po") or not name:
        raise Misuse(f"{named}: name a pod that waits for a node as pod/NAME, or a file of manifests behind -f")
    pod = known.pending.get((namespace, name))
    if pod is None:
        raise Misuse(f"{named}: {_why_not(name, namespace, known)}")
    return Candidate.of_pod(pod, namespace, name)


def _why_not(name: str, namespace: str, known: World) -> str:
    for each in known.cluster.list_pods():
        if (each.namespace, each.name) == (namespace, name) and each.node:
            return f"it is on node {each.node} already"
    waiting = sorted(f"{one} --namespace {where}" for where, one in known.pending)
    others = f"; those that do are {', '.join(waiting[:10])}" if waiting else "; none does"
    return f"no pod of that name in namespace {namespace} waits for a node{others}"


def world_of(source: Source, nodes: Sequence[Path] = (), added: Sequence[str] = ()) -> World:
    """The cluster, and the nodes of these files and texts as if they were there; what is left out is told on stderr.

    Raises:
        TallygateError: it cannot be read, or what is to be there is written wrongly.
    """
    made = world.read(source)
    for told in made.left_out:
        click.echo(f"tallygate: {told}", err=True)
    for path in nodes:
        try:
            what_if.put_nodes(made.cluster, manifests_in([str(path)]), DEFAULT)
        except Fault as fault:
            raise Misuse(f"{path}:{fault.place.line}:{fault.place.column}: {fault.message}") from fault
    for number, written in enumerate(added, 1):
        what_if.add_nodes(made.cluster, written, number, DEFAULT)
    return made
