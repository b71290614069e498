"""The options of commands that read files, a cluster or policies, and the checks that concern several of them."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from tallygate.accounting.kubernetes_versions.version import (
    MODELLED_VERSIONS,
    KubernetesVersion,
    find_modelled,
)
from tallygate.cli.connection import Connection
from tallygate.cli.framework import UsageError
from tallygate.manifests.manifest_files import STDIN, LoadedManifests
from tallygate.policy.load import SHIPPED_POLICIES, load_policies
from tallygate.policy.model import PolicySet

F = TypeVar("F", bound=Callable[..., Any])


def snapshot_option(help_text: str) -> Callable[[F], F]:
    """Return the decorator that adds `--snapshot` with the help text of the command."""
    return click.option(
        "--snapshot",
        metavar="FILE",
        type=click.Path(path_type=Path, allow_dash=True),
        help=f"{help_text} It may be compressed by gzip; - is stdin.",
    )


def policies_option(command: F) -> F:
    """Add `--policies` to a command that places pods."""
    return click.option(
        "--policies",
        metavar="PATH",
        multiple=True,
        type=click.Path(path_type=Path),
        help="A policy file, or a folder of them: new pods get the requests of its ImpliedRequests, its NodeShapes "
        "are nodes that may come, and its WorkloadKinds define where pods are in objects; may be given several times. "
        "Default: the policies of the gate in the cluster; none with --snapshot.",
    )(command)


def kubernetes_option(command: F) -> F:
    """Add `--kubernetes` to a command whose answer depends on rules that differ by version."""
    return click.option(
        "--kubernetes",
        metavar="VERSION",
        callback=_read_kubernetes_version,
        shell_complete=_complete_version,
        help=f"Apply the rules of this version of Kubernetes, as in {MODELLED_VERSIONS[-1]}. Default: the version of "
        "the cluster or of the snapshot.",
    )(command)


def _read_kubernetes_version(_: click.Context, __: click.Parameter, text: str | None) -> KubernetesVersion | None:
    version = find_modelled(text) if text is not None else None
    if text is not None and version is None:
        modelled = ", ".join(map(str, MODELLED_VERSIONS))
        raise click.BadParameter(f"{text!r} is not a version whose rules are known here; there are {modelled}")
    return version


def _complete_version(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(str(version)) for version in MODELLED_VERSIONS if str(version).startswith(incomplete)]


Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def files_options(metavar: str, help_text: str, complete: Completer | None = None) -> Callable[[F], F]:
    """Return the decorator that adds the arguments `paths` and the option `-f`, with the help text of the command."""

    def decorate(command: F) -> F:
        argument = click.argument(
            "paths", metavar=metavar, nargs=-1, type=click.Path(allow_dash=True), shell_complete=complete
        )
        option = click.option(
            "-f",
            "--filename",
            "filenames",
            metavar="FILE",
            multiple=True,
            type=click.Path(allow_dash=True),
            help=f"{help_text} The same as an argument; may be given several times.",
        )
        return argument(option(command))

    return decorate


def exclude_option(command: F) -> F:
    """Add `--exclude` to a command that reads folders of manifests."""
    return click.option(
        "--exclude",
        metavar="PATTERN",
        multiple=True,
        help="Skip files and folders in the given folders whose name or relative path matches, as in charts or "
        "'*.patch.yaml'; may be given several times.",
    )(command)


def list_excluded(loaded: LoadedManifests) -> Iterator[str]:
    """Yield a note on the files that `--exclude` leaves out, if there are any."""
    if count := loaded.excluded_count:
        yield f"{count} file{'s' * (count != 1)} left out by --exclude"


def combine_files(paths: Sequence[str], filenames: Sequence[str], *others: Path | None) -> tuple[str, ...]:
    """Return the files that the arguments and `-f` name; `others` are the files of other options.

    Raises:
        UsageError: if there is no file, or stdin is named twice.
    """
    files = (*paths, *filenames)
    if not files:
        raise UsageError("name files or folders, as arguments or after -f, or - for stdin")
    if [*files, *map(str, others)].count(STDIN) > 1:
        raise UsageError("stdin (-) can be read once: name a file in the other place")
    return files


def require_one_source(connection: Connection, snapshot: Path | None = None) -> None:
    """Check that the options name one cluster.

    Raises:
        UsageError: if they name two.
    """
    if connection.in_cluster and (connection.kubeconfig or connection.context):
        raise UsageError("--in-cluster takes neither --kubeconfig nor --context: it is the cluster that this runs in")
    if snapshot and not connection.is_default:
        raise UsageError(
            "--snapshot takes no --kubeconfig, --context, --in-cluster or --as: a snapshot is read without a cluster"
        )


def load_usable_policies(paths: Sequence[Path]) -> PolicySet:
    """Return the policies at the given paths, or the shipped ones without a path.

    Raises:
        UsageError: if the policies are not usable; the text has every error with its location.
    """
    parsed = load_policies(paths or (SHIPPED_POLICIES,))
    if not parsed.is_usable:
        raise UsageError("\n".join(map(str, parsed.findings)))
    return parsed.policies
