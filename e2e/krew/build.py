"""krew as two programs: built once from `e2e/krew/go.mod`, and kept where the control plane is.

A newer version comes by `go get -tool sigs.k8s.io/krew/cmd/krew@VERSION`.
"""

from pathlib import Path
from typing import Final

from e2e.go_program import GoProgram

_SOURCE: Final = Path(__file__).parent
KREW: Final = GoProgram("krew", "krew", "sigs.k8s.io/krew/cmd/krew", _SOURCE)
KREW_VALIDATOR: Final = GoProgram(
    "validate-krew-manifest", "krew's validator", "sigs.k8s.io/krew/cmd/validate-krew-manifest", _SOURCE
)
