"""crane as a program: built once from `e2e/crane/go.mod`, and kept where the control plane is.

A newer version comes by `go get -tool github.com/google/go-containerregistry/cmd/crane@VERSION`.
"""

from pathlib import Path
from typing import Final

from e2e.go_program import GoProgram

CRANE: Final = GoProgram("crane", "crane", "github.com/google/go-containerregistry/cmd/crane", Path(__file__).parent)
