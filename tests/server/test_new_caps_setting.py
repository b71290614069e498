"""The setting `new_caps`: whether requests under a cap that was never active wait for its first count."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tallygate.server.serve_with_cluster import _create_activation
from tallygate.server.settings.table import Settings


@pytest.mark.parametrize(("value", "is_new"), [("admit", True), ("wait", False)])
def test_a_cap_that_was_never_active_is_new_unless_requests_shall_wait(*, value: str, is_new: bool) -> None:
    policies = SimpleNamespace(caps=())
    reloader = SimpleNamespace(store=SimpleNamespace(get_policies=lambda: policies))
    settings = Settings(ledgers="memory", new_caps=value)
    activation = _create_activation(cast("Any", None), settings, cast("Any", reloader), 40.0)
    assert activation.is_new("gpus-0123456789") is is_new
