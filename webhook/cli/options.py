"""Options that several commands have, said once."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from webhook.cli.report.write import FINDING_FORMATS

F = TypeVar("F", bound=Callable[..., Any])


def output_option(command: F) -> F:
    """`-o`, for commands that find things."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(FINDING_FORMATS),
        default="table",
        show_default=True,
        help="How to print findings: for people, programs, GitHub's workflow log, or code scanners.",
    )(command)


def strict_option(command: F) -> F:
    """`--strict`, for commands that find things."""
    return click.option("--strict", is_flag=True, help="Let warnings fail too.")(command)
