"""`python -m e2e.build_programs`: builds the control plane and other programs if missing, and prints their folders.

For PATH: tests that render deploy/, play its alerts, read the workflows in .github, validate the manifest of the krew
plugin, or check how the repository is kept are skipped where Helm, promtool, actionlint, krew and Scorecard are not to
be had.
"""

import os
import sys

import click

from e2e.actionlint.build import ACTIONLINT
from e2e.errors import BuildError
from e2e.helm.build import helm
from e2e.krew.build import KREW, KREW_VALIDATOR
from e2e.local.build import programs
from e2e.promtool.build import PROMTOOL
from e2e.scorecard.build import SCORECARD

_MISUSE = 2  # the exit code

if __name__ == "__main__":
    try:
        built = (programs().kubectl, helm(), PROMTOOL.program(), ACTIONLINT.program(), KREW.program())
        for each in (KREW_VALIDATOR, SCORECARD):
            each.program()  # not for PATH: only tests run it
        click.echo(os.pathsep.join(str(each.parent) for each in built))
    except BuildError as error:
        click.echo(f"tallygate: {error}", err=True)
        sys.exit(_MISUSE)
