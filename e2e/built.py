"""`python -m e2e.built`: builds the control plane and Helm where they are missing; prints where kubectl and Helm are.

For PATH: tests that render deploy/ are skipped where neither is to be had.
"""

import os
import sys

import click

from e2e.errors import BuildError
from e2e.helm.build import helm
from e2e.local.build import programs

_MISUSE = 2  # the exit code

if __name__ == "__main__":
    try:
        click.echo(os.pathsep.join(str(each.parent) for each in (programs().kubectl, helm())))
    except BuildError as error:
        click.echo(f"tallygate: {error}", err=True)
        sys.exit(_MISUSE)
