"""The command `tallygate serve`: the gate as a server. Its options are the server's table of settings."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from tallygate.cli.framework import Command, UsageError
from tallygate.server.lifecycle import exit_process
from tallygate.server.serve import serve as serve_gate
from tallygate.server.settings.sources import load_settings
from tallygate.server.settings.table import CONFIG_VARIABLE, OPTIONS, REMOVED, Option


def add_settings(options: Sequence[Option]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the decorator that adds `--config` and an option for each of these settings.

    The values stay strings; the settings parse them. A setting of an earlier version is a usage error with its text.
    """

    def add_options(command: Callable[..., Any]) -> Callable[..., Any]:
        for name in REMOVED:
            removed = click.option(f"--{name.replace('_', '-')}", hidden=True, expose_value=False, callback=_refuse)
            command = removed(command)
        for option in reversed(options):
            command = click.option(
                option.flag,
                option.name,
                metavar=option.value_type.metavar,
                multiple=option.value_type.is_list,
                help=_format_help(option),
            )(command)
        return click.option(
            "--config",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help=f"Settings as YAML, JSON or TOML, by the names of the options with _ for -. [{CONFIG_VARIABLE}]",
        )(command)

    return add_options


def _refuse(_: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Refuse an option of an earlier version.

    Raises:
        UsageError: if it is given; the text says what is true or to be done without it.
    """
    if value is not None and parameter.name is not None:
        raise UsageError(f"{parameter.opts[0]}: there is no such setting any more: {REMOVED[parameter.name]}")


def _format_help(option: Option) -> str:
    default = f" Default: {option.default}." if option.default else ""
    return f"{option.description}{default} [{option.variable}]"


@click.command(
    cls=Command,
    examples=(
        ("tallygate certs issue tls/ --name localhost --name 127.0.0.1", "first a certificate ..."),
        ("tallygate serve --tls-cert tls/tls.crt --tls-key tls/tls.key --policies policies/", "... then serve with it"),
        (
            "tallygate serve --tls-secret tallygate-system/tallygate-tls",
            "in a cluster, with certificates that it keeps",
        ),
        ("TALLYGATE_LISTEN=127.0.0.1:8443 tallygate serve --config settings.yaml", "settings from elsewhere"),
        ("curl --cacert tls/ca.crt https://localhost:8443/readyz", "is it ready, and which policies are active?"),
    ),
)
@add_settings(OPTIONS)
def serve(config: Path | None, **flags: Any) -> None:
    """Serve the gate over TLS until it is stopped (SIGTERM, or Ctrl-C).

    Every setting can be given as a flag, as the environment variable in brackets, or in a settings file. Flags take
    precedence over variables, and variables over the file. Policy files and certificates are reloaded when they change.
    With --tls-secret the gate issues and renews its certificates, and publishes their CA to the API server.

    Exit codes: 0 stopped, 1 stopped with unfinished requests, 2 it could not start.
    """
    settings = load_settings(flags, os.environ, config)
    if not settings.tls_secret:
        exit_process(serve_gate(settings))
    # The certificate controller imports the official client, a quarter of the start time: only this option needs it.
    from tallygate.cli.serve.certificate_controller import run_certificate_controller  # noqa: PLC0415

    exit_process(serve_gate(settings, run_certificate_controller))
