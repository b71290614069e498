"""The server's table of settings as command options."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from tallygate.webhook.server.settings.table import CONFIG_VARIABLE, OPTIONS, Option


def server_options(names: Iterable[str] | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds `--config` and an option for each named setting, or for all settings.

    The values stay strings; the settings parse them.
    """
    selected = None if names is None else frozenset(names)

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(OPTIONS):
            if selected is None or option.name in selected:
                command = click.option(
                    option.flag,
                    option.name,
                    metavar=option.value_type.metavar,
                    multiple=option.value_type.is_list,
                    help=_format_help(option),
                )(command)
        return _config_option(command)

    return decorate


_config_option = click.option(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help=f"Settings as YAML, JSON or TOML, by the names of the options with _ for -. [{CONFIG_VARIABLE}]",
)


def _format_help(option: Option) -> str:
    default = f" Default: {option.default}." if option.default else ""
    return f"{option.description}{default} [{option.variable}]"
