"""`tallygate snapshot`: what a cluster holds now, in one file."""

import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import click

from webhook.cli.cluster import kept
from webhook.cli.cluster.kept import Item, Other
from webhook.cli.cluster.ledgers import PAGE
from webhook.cli.cluster.listing import ListingError, UnservedError, listed
from webhook.cli.cluster.options import connection_options
from webhook.cli.cluster.source import Source
from webhook.cli.command import Command, Misuse
from webhook.state.watch.failure import Reason
from webhook.state.watch.pool import Access, PooledTransport
from webhook.state.watch.wire import Reading

_STDOUT = "-"
_BEGIN, _BETWEEN = b'{"apiVersion":"v1","kind":"List","items":[\n', b",\n"


@click.command(
    cls=Command,
    examples=(
        ("tallygate snapshot -o now.json", "the cluster of your kubeconfig"),
        ("tallygate snapshot --context prod | gzip > prod.json.gz", "another, for somebody else to look at"),
        ("tallygate check --policies policies/ --snapshot now.json deploy/", "... is there room for these too?"),
        ("tallygate usage --policies policies/ --snapshot now.json", "... and who held what?"),
    ),
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default=_STDOUT,
    show_default=True,
    type=click.Path(allow_dash=True, dir_okay=False),
    help="Where to; - is stdout. The file is written whole or not at all.",
)
@connection_options
def snapshot(output: str, kubeconfig: Path | None, context: str | None, *, in_cluster: bool) -> None:
    """Write what a cluster holds as one JSON document, which `check`, `usage`, `predict` and `headroom` read.

    Of each object only what tallygate reads is kept: names, labels, what is asked for, what is there, and what says
    where pods can run. Environment, commands, images and all other annotations are left out, so that the file can be
    given to others. Needed rights: list on nodes, pods and namespaces. If they may be listed, it holds too: CapLedgers,
    persistent volumes and their claims, storage classes, CSI nodes, drivers, capacities and attachments, priority
    classes and disruption budgets.

    Exit codes: 0 written, 2 it could not be done.
    """
    items, revision = _taken(Source(kubeconfig, context, in_cluster).connection())
    _write(output, [_BEGIN, *_joined(items), f'\n],"metadata":{{"resourceVersion":"{revision}"}}}}\n'.encode()])


def _taken(access: Access) -> tuple[list[Item], int]:
    """Every object, and when the pods were so. They come last: no older than what a ledger was counted from."""
    transport = PooledTransport(access)
    try:
        items = [item for item in _ledgers(transport, access.server) if item.content]
        items += listed(transport, kept.NAMESPACES, access.server).items
        items += listed(transport, kept.NODES, access.server).items
        items += _volumes(transport, access.server)
        for reading in kept.RANKS:
            items += _allowed(transport, reading, access.server) or ()
        pods = listed(transport, kept.PODS, access.server)
        return items + list(pods.items), pods.revision
    finally:
        transport.close()


def _ledgers(transport: PooledTransport, where: str) -> Iterator[Item]:
    """The CapLedgers, if the cluster has any and lets us read them; what is left out is told on stderr."""
    try:
        found = listed(transport, kept.LEDGERS, where, PAGE).items
    except UnservedError:
        return
    except ListingError as error:
        if error.cause.reason is not Reason.FORBIDDEN:
            raise
        click.echo(f"tallygate: CapLedgers are left out: {error.cause}", err=True)
        return
    for item in found:
        if not item.content:
            name = f"{item.namespace}/{item.name}"
            click.echo(f"tallygate: capledger {name} is left out: a newer tallygate may have written it", err=True)
        yield item


def _volumes(transport: PooledTransport, where: str) -> Iterator[Item]:
    """What there is of volumes, if we may read all of it."""
    found = [_allowed(transport, reading, where) for reading in kept.VOLUMES]
    if None not in found:
        yield from chain.from_iterable(filter(None, found))
        yield kept.VOLUMES_KNOWN
    else:
        click.echo("tallygate: so is all else about volumes: a part of it would say what is not so", err=True)


def _allowed(transport: PooledTransport, reading: Reading[Other, Item], where: str) -> Sequence[Item] | None:
    """What is listed, nothing where there is no such resource, None where we may not; that is told on stderr."""
    try:
        return listed(transport, reading, where).items
    except UnservedError:
        return ()
    except ListingError as error:
        if error.cause.reason is not Reason.FORBIDDEN:
            raise
        click.echo(f"tallygate: {reading.name} are left out: {error.cause}", err=True)
        return None


def _joined(items: Iterable[Item]) -> Iterator[bytes]:
    for number, item in enumerate(items):
        if number:
            yield _BETWEEN
        yield item.content


def _write(output: str, parts: Iterable[bytes]) -> None:
    if output == _STDOUT:
        for part in parts:
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
        return
    try:
        _write_file(Path(output), parts)
    except OSError as error:
        raise Misuse(f"{output}: cannot be written: {error.strerror}") from error


def _write_file(path: Path, parts: Iterable[bytes]) -> None:
    """Write it beside and let it take the place; what is no file, such as a pipe, is written as it is."""
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        with path.open("wb") as there:
            there.writelines(parts)
        return
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as beside:
        try:
            beside.writelines(parts)
            beside.flush()
            os.fsync(beside.fileno())
            Path(beside.name).replace(path)
        except BaseException:
            Path(beside.name).unlink()
            raise
