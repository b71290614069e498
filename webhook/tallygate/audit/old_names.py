"""Names of resources that Kubernetes 1.8 replaced by extended resources, in stored objects, with their successors.

The scheduler still counts such a name, and nothing else does: the API server checks no amount of it, a quota never
counts it, and no kubelet publishes it.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from tallygate.accounting.names import LIMITS_PREFIX, OPAQUE_PREFIX, REQUESTS_PREFIX
from tallygate.accounting.problem import BUILT_IN_CHECK, Problem, Reason
from tallygate.documents.syntax_tree import join_path

OLD_NAME: Final = "TG071"

_NVIDIA_GPU: Final = "alpha.kubernetes.io/nvidia-gpu"
_MAYBE_OLD: Final = re.compile(rb"opaque-int-resource-|nvidia-gpu")
_PREFIXES: Final = (REQUESTS_PREFIX, LIMITS_PREFIX)


def find_new_name(name: str) -> str:
    """Return the name that replaces a resource, in the form of a quota's key too; empty for a name of today.

    Only the owner of an opaque resource knows its domain: the result has `example.com`.
    """
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
    counted = name.removeprefix(prefix)
    if counted == _NVIDIA_GPU:
        return f"{prefix}nvidia.com/gpu"
    last = counted.removeprefix(OPAQUE_PREFIX)
    return f"{prefix}example.com/{last}" if last and last != counted else ""


def find_old_names(content: bytes | msgspec.Raw) -> Iterator[Problem]:
    """Yield a problem for each old name in the spec or the template of an object, and in the amounts of a node.

    Raises:
        ValueError: if the content is no JSON.
    """
    if _MAYBE_OLD.search(content):
        stored = msgspec.json.decode(content)
        for section in ("spec", "template"):
            yield from _walk(stored.get(section), section)
        for section in ("capacity", "allocatable"):
            yield from _walk((stored.get("status") or {}).get(section), f"status.{section}")


def _walk(value: Any, path: str) -> Iterator[Problem]:
    if isinstance(value, dict):
        for key, child in value.items():
            field = join_path(path, key)
            if new := find_new_name(key):
                yield _create_problem(field, key, new)
            yield from _walk(child, field)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _walk(child, join_path(path, index))


def _create_problem(field: str, old: str, new: str) -> Problem:
    domain = "" if old.endswith(_NVIDIA_GPU) else ", with a domain of yours in place of example.com"
    return Problem(
        field,
        OLD_NAME,
        Reason.FORBIDDEN,
        f"{old} is a name that Kubernetes 1.8 replaced: write {new}{domain}",
        value=old,
        policy_kind=BUILT_IN_CHECK,
    )
