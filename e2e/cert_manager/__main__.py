"""`python -m e2e.cert_manager`: builds it, so that the cases that need it are no longer skipped."""

import sys

import click

from e2e.cert_manager.running import CERT_MANAGER
from e2e.errors import BuildError

_MISUSE = 2  # the exit code

if __name__ == "__main__":
    try:
        click.echo(CERT_MANAGER.program())
    except BuildError as error:
        click.echo(f"tallygate: {error}", err=True)
        sys.exit(_MISUSE)
