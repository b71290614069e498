"""cosign as a program: built once from `e2e/cosign/go.mod`, and kept where the control plane is.

It takes four minutes of two processors, so only `make release-rehearsal` builds it. A newer version comes by
`go get -tool github.com/sigstore/cosign/v3/cmd/cosign@VERSION`.
"""

from pathlib import Path
from typing import Final

from e2e.go_program import GoProgram

COSIGN: Final = GoProgram("cosign", "cosign", "github.com/sigstore/cosign/v3/cmd/cosign", Path(__file__).parent)
