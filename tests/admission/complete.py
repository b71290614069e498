"""The match condition of the mutating phase for complete pods, as a Python function."""

import re
from collections.abc import Mapping
from typing import Any

_NATIVE = ("cpu", "memory", "ephemeral-storage")
_EXTENDED = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?",
    re.ASCII,
)
_WHOLE = re.compile(r"[0-9]{1,15}", re.ASCII)
_SHORT_QUANTITY = re.compile(r"[0-9]{1,12}|[0-9]{1,9}m|[0-9]{1,5}([kMG]|[KMG]i)|[0-9]{1,2}(T|Ti)", re.ASCII)
_MAX_CONTAINERS, _MAX_NAMES, _MAX_NAME_LENGTH = 20, 8, 200


def is_complete(pod: Mapping[str, Any]) -> bool:
    """Return True if neither a fill nor a rejection by the API server can follow from the resources of a new pod."""
    spec = pod["spec"]
    if "resources" in spec or "overhead" in spec:
        return False
    lists = (spec["containers"], spec.get("initContainers", []))
    return all(len(each) <= _MAX_CONTAINERS and all(map(_is_complete_container, each)) for each in lists)


def _is_complete_container(container: Mapping[str, Any]) -> bool:
    resources = container.get("resources", {})
    requests = resources.get("requests", {})
    return (
        resources.get("requests") == resources.get("limits")
        and len(requests) <= _MAX_NAMES
        and all(_is_plain(name, quantity) for name, quantity in requests.items())
    )


def _is_plain(name: str, quantity: str) -> bool:
    if name in _NATIVE:
        return _SHORT_QUANTITY.fullmatch(quantity) is not None
    has_valid_name = len(name) <= _MAX_NAME_LENGTH and _EXTENDED.fullmatch(name) is not None
    is_extended = "kubernetes.io/" not in name and not name.startswith("requests.")
    return has_valid_name and is_extended and _WHOLE.fullmatch(quantity) is not None
