"""What the commands of `tallygate certs` share: the folder they are given, and how what goes wrong is told."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from certs.errors import CertsError
from webhook.cli.command import Misuse

FOLDER = click.argument("folder", type=click.Path(path_type=Path))


@contextmanager
def saying() -> Iterator[None]:
    """What `certs` raises is for the person at the terminal."""
    try:
        yield
    except CertsError as error:
        raise Misuse(str(error)) from error
