"""promtool, the checker of Prometheus, as e2e builds it or as it is on PATH."""

import shutil

import pytest

from e2e.promtool.build import PROMTOOL


def find_promtool() -> str:
    """Return the program, or skip the test if it is missing."""
    own = PROMTOOL.find_built()
    found = shutil.which("promtool") if own is None else str(own)
    if found is None:
        pytest.skip("promtool is neither built here (python -m e2e.build_programs does) nor on PATH")
    return found
