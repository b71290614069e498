"""The command `tallygate snapshot`: the state of a cluster in one file."""

import os
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import click

from tallygate.cli.connection import Connection
from tallygate.cli.doctor.mounted_policies import find_gate_namespace
from tallygate.cli.framework import Command, UsageError, connection_options
from tallygate.cli.sources import snapshot_items
from tallygate.cli.sources.resource_lists import ListError, UnknownResourceError, list_creators, list_resource
from tallygate.cli.sources.snapshot_items import SnapshotItem
from tallygate.cluster.cap_ledger_list import LEDGER_PAGE_SIZE
from tallygate.cluster.rejected_pods import RejectedPodList
from tallygate.errors import TallygateError
from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.client import ApiClient, ClientConfig, read_git_version
from tallygate.kube.resource_codec import ResourceCodec
from tallygate.policy.limit_annotations import ANNOTATION_PREFIX
from tallygate.state.kubernetes.limit_record_store import LimitRecordStore

_STDOUT = "-"
_TEMPLATES = "resourceclaimtemplates"
_UNSERVED: Sequence[SnapshotItem] = []
_GZIP_SUFFIX = ".gz"
_HEADER, _SEPARATOR = b'{"apiVersion":"v1","kind":"List","items":[\n', b",\n"


@click.command(
    cls=Command,
    examples=(
        ("tallygate snapshot now.json", "the cluster of your kubeconfig"),
        ("tallygate snapshot --context prod prod.json.gz", "another cluster, compressed, to share with others"),
        ("tallygate check --policies policies/ --snapshot now.json deploy/", "... do these exceed a cap?"),
        ("tallygate usage --policies policies/ --snapshot prod.json.gz", "... and what was used?"),
    ),
)
@click.argument("file", metavar="[FILE|-]", default=_STDOUT, type=click.Path(allow_dash=True, dir_okay=False))
@connection_options
def snapshot(file: str, connection: Connection) -> None:
    """Write the state of a cluster as one JSON document, which the options `--snapshot` of other commands read.

    FILE is written completely or not at all, and compressed by gzip if its name ends in .gz. Without FILE, or with -,
    the document goes to stdout.

    The document has only the fields that tallygate reads: names, labels, requests, allocatable amounts, the fields that
    decide where pods can run, the owners of pods with the times at which they started and ended, and the version of
    Kubernetes. It has no environment, commands, images or other annotations, so you can share it. Needed rights: list
    on nodes, pods and namespaces. If they may be listed, it also contains CapLedgers, persistent volumes and their
    claims, storage classes, CSI nodes, drivers, capacities and attachments, priority classes, limit ranges, resource
    quotas, disruption budgets, PodGroups, device classes, claims for devices, templates of claims, and the attributes
    and capacities of devices in ResourceSlices; NodePools and NodeClaims of Karpenter; the controllers that could not
    create pods, and their events, with the reason; and, if a namespace has an annotation that sets limits, the gate's
    records of admitted annotations.

    Exit codes: 0 written, 2 failed.
    """
    items, revision = _list_objects(connection.load())
    _write_output(file, [_HEADER, *_join(items), f'\n],"metadata":{{"resourceVersion":"{revision}"}}}}\n'.encode()])


def _list_objects(client_config: ClientConfig) -> tuple[list[SnapshotItem], int]:
    """Return every object and the revision of the pods.

    The pods are listed after the ledgers, so that they are no older than the pods that any ledger counted, claims after
    the pods, so that the pod of each is known, and slices after the claims, which show the devices of these.
    """
    client = ApiClient(client_config)
    try:
        git_version = read_git_version(client)
        items = [] if git_version is None else [snapshot_items.create_version_item(git_version)]
        items += [item for item in _list_cap_ledgers(client) if item.content]
        namespaces = list_resource(client, snapshot_items.NAMESPACE_CODEC).items
        items += namespaces
        items += _list_limit_records(client_config, client, namespaces)
        items += list_resource(client, snapshot_items.NODE_CODEC).items
        items += _list_volume_objects(client)
        for codec in snapshot_items.SCHEDULING_CODECS:
            items += _list_marked(client, codec)
        pods = list_resource(client, snapshot_items.POD_CODEC)
        items += pods.items
        for codec in snapshot_items.CLAIM_CODECS:
            items += _list_marked(client, codec)
        items += _list_rejected_pods(client)
        return items, pods.revision
    finally:
        client.close()


def _list_cap_ledgers(client: ApiClient) -> Iterator[SnapshotItem]:
    """Yield the CapLedgers, if the cluster has any and permits the list; report omitted ones on stderr."""
    try:
        items = list_resource(client, snapshot_items.LEDGER_CODEC, LEDGER_PAGE_SIZE).items
    except UnknownResourceError:
        return
    except ListError as error:
        if error.cause.reason is not ApiErrorReason.FORBIDDEN:
            raise
        click.echo(f"tallygate: CapLedgers are left out: {error.cause}", err=True)
        return
    for item in items:
        if not item.content:
            name = f"{item.namespace}/{item.name}"
            click.echo(f"tallygate: capledger {name} is left out: a newer tallygate may have written it", err=True)
        yield item


def _list_limit_records(
    client_config: ClientConfig, client: ApiClient, namespaces: Iterable[SnapshotItem]
) -> list[SnapshotItem]:
    """Return the records of admitted limit annotations if a namespace has one; none, with a message, if it may not."""
    if not any(ANNOTATION_PREFIX.encode() in namespace.content for namespace in namespaces):
        return []
    try:
        records = LimitRecordStore(client, find_gate_namespace(client_config)).list_records()
    except TallygateError as error:
        click.echo(f"tallygate: the gate's records of admitted annotations are left out: {error}", err=True)
        return []
    return snapshot_items.create_limit_record_items(records)


def _list_volume_objects(client: ApiClient) -> Iterator[SnapshotItem]:
    """Yield the volume objects if all of them may be listed, else none."""
    lists = [_list_if_allowed(client, codec) for codec in snapshot_items.VOLUME_CODECS]
    if None not in lists:
        yield from chain.from_iterable(filter(None, lists))
        yield snapshot_items.VOLUMES_LISTED_ITEM
    else:
        click.echo("tallygate: so is all else about volumes: a part of it would say what is not so", err=True)


def _list_marked(client: ApiClient, codec: ResourceCodec[Any, SnapshotItem]) -> Iterator[SnapshotItem]:
    """Yield the objects of a resource if they may be listed, after its mark if it has one.

    Templates of claims have no mark if the API server does not serve them: it may have claims of another version.
    """
    items = _list_if_allowed(client, codec)
    if items is None:
        return
    is_marked = codec.name in snapshot_items.LIST_MARKS and not (codec.name == _TEMPLATES and items is _UNSERVED)
    yield from [snapshot_items.LIST_MARKS[codec.name]] if is_marked else []
    yield from items


def _list_if_allowed(client: ApiClient, codec: ResourceCodec[Any, SnapshotItem]) -> Sequence[SnapshotItem] | None:
    """Return the list: empty if the resource is unknown, None with a message on stderr if it is forbidden."""
    try:
        return list_resource(client, codec).items
    except UnknownResourceError:
        return _UNSERVED
    except ListError as error:
        if error.cause.reason is not ApiErrorReason.FORBIDDEN:
            raise
        _report_left_out(codec.name, error.cause)
        return None


def _list_rejected_pods(client: ApiClient) -> Iterator[SnapshotItem]:
    """Yield the controllers' objects, and their events, that tell which pods could not be created."""
    rejected = RejectedPodList()
    for kind, raw in list_creators(client, _report_left_out):
        rejected.add(kind, raw)
    for kind, meta, content in rejected.list_items():
        yield SnapshotItem(meta.uid or "", meta.namespace or "", meta.name or "", 0, content, kind)


def _report_left_out(resource: str, error: ApiError) -> None:
    click.echo(f"tallygate: {resource} are left out: {error}", err=True)


def _join(items: Iterable[SnapshotItem]) -> Iterator[bytes]:
    for number, item in enumerate(items):
        if number:
            yield _SEPARATOR
        yield item.content


def _write_output(file: str, parts: Iterable[bytes]) -> None:
    if file == _STDOUT:
        for part in parts:
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
        return
    try:
        _replace_file(Path(file), _compress(parts) if file.endswith(_GZIP_SUFFIX) else parts)
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}") from error


def _compress(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the parts as gzip writes them, without a time: equal snapshots are equal files."""
    compressor = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    for part in parts:
        yield compressor.compress(part)
    yield compressor.flush()


def _replace_file(path: Path, parts: Iterable[bytes]) -> None:
    """Write a temporary file and rename it to the path; write directly to a special file such as a pipe."""
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        with path.open("wb") as stream:
            stream.writelines(parts)
        return
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as temporary:
        try:
            temporary.writelines(parts)
            temporary.flush()
            os.fsync(temporary.fileno())
            Path(temporary.name).replace(path)
        except BaseException:
            Path(temporary.name).unlink()
            raise
