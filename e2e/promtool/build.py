"""promtool as a program: built once from `e2e/promtool/go.mod`, and kept where the control plane is.

Without the finding of targets (`remove_all_sd`), which rules do not need: half of the work, and none of the modules of
fifty clouds. So `go mod tidy`, which looks at all of them, is not for this folder; a newer version comes by
`go get -tags=remove_all_sd -tool github.com/prometheus/prometheus/cmd/promtool@VERSION`. What it shares with Helm has
the version that Helm has, so that Go compiles it once.
"""

from pathlib import Path
from typing import Final

from e2e.go_program import GoProgram

PROMTOOL: Final = GoProgram(
    "promtool",
    "promtool",
    "github.com/prometheus/prometheus/cmd/promtool",
    Path(__file__).parent,
    tags=("remove_all_sd",),
)
