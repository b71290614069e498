"""The driver as a program, built once from `e2e/dra_driver/go.mod`, and as an image without any other file.

A newer version comes by `go get -tool sigs.k8s.io/dra-example-driver/cmd/dra-example-kubeletplugin@VERSION`.
"""

from pathlib import Path
from typing import Final

from e2e.go_program import GoProgram
from e2e.image import build_program_image

_MODULE: Final = "sigs.k8s.io/dra-example-driver"
_DRIVER: Final = GoProgram(
    "dra-example-kubeletplugin",
    "the example driver for devices",
    f"{_MODULE}/cmd/dra-example-kubeletplugin",
    Path(__file__).parent,
    tags=("netgo", "osusergo"),  # without the C library, which the image has not
)


def build_driver_image(tag: str, _base: str = "") -> None:
    """Build the image under this name; progress on stderr.

    Raises:
        BuildError: if there is no Go or no engine here, or it fails.
    """
    build_program_image(tag, _DRIVER.program())
