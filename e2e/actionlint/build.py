"""actionlint as a program: built once from `e2e/actionlint/go.mod`, and kept where the control plane is.

A newer version comes by `go get -tool github.com/rhysd/actionlint/cmd/actionlint@VERSION`.
"""

from pathlib import Path
from typing import Final

from e2e.go_program import GoProgram

ACTIONLINT: Final = GoProgram(
    "actionlint", "actionlint", "github.com/rhysd/actionlint/cmd/actionlint", Path(__file__).parent
)
