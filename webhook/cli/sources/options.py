"""The options of all commands that read a cluster or policies: the cluster's source, and the policy files."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from tallygate.webhook.cli.framework import UsageError
from tallygate.webhook.policy.load import SHIPPED_POLICIES, load_policies
from tallygate.webhook.policy.model import PolicySet

F = TypeVar("F", bound=Callable[..., Any])

_KUBECONFIG = click.option(
    "--kubeconfig",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="How to reach the cluster. Default: as kubectl does, by $KUBECONFIG or ~/.kube/config.",
)
_CONTEXT = click.option("--context", metavar="NAME", help="A context of the kubeconfig. Default: its current one.")
_IN_CLUSTER = click.option(
    "--in-cluster", is_flag=True, help="The cluster that this runs in, as the pod's service account."
)


def connection_options(command: F) -> F:
    """Add `--kubeconfig`, `--context` and `--in-cluster` to a command."""
    return _KUBECONFIG(_CONTEXT(_IN_CLUSTER(command)))


def snapshot_option(help_text: str) -> Callable[[F], F]:
    """Return the decorator that adds `--snapshot` with the help text of the command."""
    return click.option("--snapshot", metavar="FILE", type=click.Path(path_type=Path), help=help_text)


def require_one_source(
    kubeconfig: Path | None, context: str | None, *, in_cluster: bool, snapshot: Path | None = None
) -> None:
    """Check that the options name one cluster.

    Raises:
        UsageError: if they name two.
    """
    if in_cluster and (kubeconfig or context):
        raise UsageError("--in-cluster takes neither --kubeconfig nor --context: it is the cluster that this runs in")
    if snapshot and (in_cluster or kubeconfig or context):
        raise UsageError(
            "--snapshot takes no --kubeconfig, --context or --in-cluster: a snapshot is read without a cluster"
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
