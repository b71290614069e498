"""Prometheus' own word on what deploy/prometheus says: promtool, as e2e builds it or as it is on PATH."""

import shutil

import pytest

from e2e.promtool.build import PROMTOOL


def promtool() -> str:
    """The program; where there is none, the test that asks for it is skipped."""
    own = PROMTOOL.built()
    found = shutil.which("promtool") if own is None else str(own)
    if found is None:
        pytest.skip("promtool is neither built here (python -m e2e.built does) nor on PATH")
    return found
