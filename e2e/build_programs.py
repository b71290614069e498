"""`python -m e2e.build_programs`: builds the control plane, Helm and promtool if missing, and prints their folders.

For PATH: tests that render deploy/, and that play its alerts, are skipped where these are not to be had.
"""

import os
import sys

import click

from e2e.errors import BuildError
from e2e.helm.build import helm
from e2e.local.build import programs
from e2e.promtool.build import PROMTOOL

_MISUSE = 2  # the exit code

if __name__ == "__main__":
    try:
        click.echo(os.pathsep.join(str(each.parent) for each in (programs().kubectl, helm(), PROMTOOL.program())))
    except BuildError as error:
        click.echo(f"tallygate: {error}", err=True)
        sys.exit(_MISUSE)
