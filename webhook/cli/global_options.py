"""The options that every command with a cluster has, and that may stand before the command too, as in kubectl."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from tallygate.webhook.cli.completions import GIVEN_OPTIONS, complete_context, complete_namespace

_TRACEBACK = "tallygate.webhook.cli.traceback"

_SETTINGS: dict[str, dict[str, Any]] = {
    "--kubeconfig": {
        "metavar": "FILE",
        "type": click.Path(path_type=Path),
        "help": "How to reach the cluster. Default: as kubectl does, by $KUBECONFIG or ~/.kube/config.",
    },
    "--context": {
        "metavar": "NAME",
        "help": "A context of the kubeconfig. Default: its current one.",
        "shell_complete": complete_context,
    },
    "--in-cluster": {"is_flag": True, "help": "The cluster that this runs in, as the pod's service account."},
    "--namespace": {"metavar": "NAME", "shell_complete": complete_namespace},
}
F = TypeVar("F", bound=Callable[..., Any])
_NAMESPACE_HELP = "The namespace of the command; each command describes what it means there."


def connection_option(flag: str) -> Callable[[F], F]:
    """Return the decorator that adds an option of connections to a command."""
    return click.option(flag, **_SETTINGS[flag])


def namespace_option(help_text: str, **settings: Any) -> Callable[[F], F]:
    """Return the decorator that adds `-n/--namespace` with the help text of the command."""
    return click.option("-n", "--namespace", help=help_text, **_SETTINGS["--namespace"], **settings)


def all_namespaces_option(help_text: str) -> Callable[[F], F]:
    """Return the decorator that adds `-A/--all-namespaces` with the help text of the command."""
    return click.option("-A", "--all-namespaces", is_flag=True, help=help_text)


def create_group_options(*, hidden: bool) -> list[click.Parameter]:
    """Return the options of a group of commands, which it passes on to the command."""
    options: list[click.Parameter] = [
        click.Option(
            ["-n", flag] if flag == "--namespace" else [flag],
            **{"help": _NAMESPACE_HELP, **settings},
            hidden=hidden,
            expose_value=False,
            callback=_remember_option,
        )
        for flag, settings in _SETTINGS.items()
    ]
    return [*options, create_traceback_option(hidden=hidden)]


def create_traceback_option(*, hidden: bool) -> click.Option:
    """Return the option `--traceback`, which any command accepts."""
    return click.Option(
        ["--traceback"],
        is_flag=True,
        hidden=hidden,
        expose_value=False,
        callback=_remember_traceback,
        help="Show the traceback of an internal error.",
    )


def wants_traceback(ctx: click.Context) -> bool:
    """Return whether the user has given `--traceback` anywhere in the line."""
    return bool(ctx.meta.get(_TRACEBACK))


def add_given_options(ctx: click.Context, command: click.Command, args: list[str]) -> list[str]:
    """Return the arguments of a command after the options that stood before its name.

    Raises:
        click.UsageError: if the command does not have such an option.
    """
    given: Sequence[tuple[str, list[str]]] = ctx.meta.get(GIVEN_OPTIONS, ())
    flags = {flag for parameter in command.params for flag in parameter.opts}
    for flag, _ in given:
        if flag not in flags and not ctx.resilient_parsing:
            raise click.UsageError(f"{ctx.command_path} {command.name} has no option {flag}", ctx)
    return [*(word for flag, words in given if flag in flags for word in words), *args]


def _remember_option(ctx: click.Context, parameter: click.Parameter, value: object) -> None:
    flag = parameter.opts[-1]
    if value:
        words = [flag] if value is True else [flag, str(value)]
        ctx.meta.setdefault(GIVEN_OPTIONS, []).append((flag, words))


def _remember_traceback(ctx: click.Context, _: click.Parameter, value: object) -> None:
    if value:
        ctx.meta[_TRACEBACK] = True
