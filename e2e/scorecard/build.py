"""Scorecard's checks of files as a program: built once from `e2e/scorecard/go.mod`, and kept like the control plane.

A newer version comes by `go get github.com/ossf/scorecard/v5@VERSION` and `go mod tidy`.
"""

from pathlib import Path
from typing import Final

from e2e.go_program import GoProgram

SCORECARD: Final = GoProgram("scorecard-files", "OpenSSF Scorecard", ".", Path(__file__).parent)
