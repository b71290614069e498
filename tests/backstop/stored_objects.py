"""Objects as an API server completes them before admission, in the fields that rules read."""

import copy
import json
from typing import Any

from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tests.backstop.drawn_rules import Object

_LISTS = frozenset({"requests", "limits", "hard", "max", "min", "default", "defaultRequest", "overhead"})


def store(body: Object) -> Object | None:
    """Return an object with canonical quantities in thousandths, as SetDefaults_ResourceList leaves them.

    Its pod has the requests that its limits state, and the claims have the defaults of a request. None if a quantity
    cannot be read.
    """
    try:
        return _complete(copy.deepcopy(body))
    except QuantityError:
        return None


def _complete(body: Object) -> Object:
    _convert(body)
    if body["kind"] == "Pod":
        spec = body.get("spec") or {}
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            resources = container.get("resources") or {}
            if resources.get("limits"):
                resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    return body


def _convert(value: Any) -> None:
    """Rewrite the quantities in every list of resources, in place."""
    if isinstance(value, list):
        for child in value:
            _convert(child)
    elif isinstance(value, dict):
        for key, child in value.items():
            if key in _LISTS and isinstance(child, dict):
                for name, amount in child.items():
                    child[name] = Quantity.from_json(json.dumps(amount).encode()).round_up_to_milli().text
            else:
                _convert(child)
