"""What the match condition of the mutating phase takes for a complete pod, as a person would write it in Python."""

import re
from collections.abc import Mapping
from typing import Any

_NATIVE = ("cpu", "memory", "ephemeral-storage")
_EXTENDED = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?",
    re.ASCII,
)
_WHOLE = re.compile(r"[0-9]{1,15}", re.ASCII)
_MODEST = re.compile(r"[0-9]{1,12}|[0-9]{1,9}m|[0-9]{1,5}([kMG]|[KMG]i)|[0-9]{1,2}(T|Ti)", re.ASCII)
_MOST_CONTAINERS, _MOST_NAMES, _LONGEST_NAME = 20, 8, 200


def is_complete(pod: Mapping[str, Any]) -> bool:
    """Whether a pod that is created would be neither filled in nor refused by the API server for what it asks for."""
    spec = pod["spec"]
    if "resources" in spec or "overhead" in spec:
        return False
    lists = (spec["containers"], spec.get("initContainers", []))
    return all(len(each) <= _MOST_CONTAINERS and all(map(_asks_completely, each)) for each in lists)


def _asks_completely(container: Mapping[str, Any]) -> bool:
    resources = container.get("resources", {})
    requests = resources.get("requests", {})
    return (
        resources.get("requests") == resources.get("limits")
        and len(requests) <= _MOST_NAMES
        and all(_is_plain(name, quantity) for name, quantity in requests.items())
    )


def _is_plain(name: str, quantity: str) -> bool:
    if name in _NATIVE:
        return _MODEST.fullmatch(quantity) is not None
    is_named_well = len(name) <= _LONGEST_NAME and _EXTENDED.fullmatch(name) is not None
    is_own = "kubernetes.io/" not in name and not name.startswith("requests.")
    return is_named_well and is_own and _WHOLE.fullmatch(quantity) is not None
