"""The kinds that are audited, in their order, and where they are listed."""

from typing import Final

from webhook.admission.workloads import TARGETS

POD: Final = ("", "Pod")
NODE: Final = ("", "Node")
_MAKERS = (("batch", "CronJob"), ("apps", "Deployment"))
_MADE = (("apps", "ReplicaSet"), ("batch", "Job"))

ORDER: tuple[tuple[str, str], ...] = (
    *_MAKERS,
    *sorted(key for key in TARGETS if key not in {*_MAKERS, *_MADE, POD}),
    *_MADE,
)
"""All that the gate judges but pods, which come last: an owner stands before what it owns."""

GROUPS = {kind: group for group, kind in TARGETS}
"""The API group of a judged kind; no two of them have one name."""


def api_version(group: str) -> str:
    """As it stands in an object."""
    return f"{group}/v1" if group else "v1"


def path(key: tuple[str, str], namespace: str = "") -> str:
    """Where objects of a kind are listed, of all namespaces or of one."""
    group, _ = key
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"{f'/apis/{group}/v1' if group else '/api/v1'}{within}/{TARGETS[key].plural}"
