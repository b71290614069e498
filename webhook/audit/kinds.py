"""The kinds that are audited, in their order, and where they are listed."""

from typing import Final

from webhook.admission.workloads import REVIEW_TARGETS

POD: Final = ("", "Pod")
NODE: Final = ("", "Node")
_TOP_LEVEL_CONTROLLERS = (("batch", "CronJob"), ("apps", "Deployment"))
_CONTROLLED_KINDS = (("apps", "ReplicaSet"), ("batch", "Job"))

KINDS_IN_ORDER: tuple[tuple[str, str], ...] = (
    *_TOP_LEVEL_CONTROLLERS,
    *sorted(key for key in REVIEW_TARGETS if key not in {*_TOP_LEVEL_CONTROLLERS, *_CONTROLLED_KINDS, POD}),
    *_CONTROLLED_KINDS,
)
"""All that the gate judges but pods, which come last: an owner stands before what it owns."""

GROUPS_BY_KIND = {kind: group for group, kind in REVIEW_TARGETS}
"""The API group of a judged kind; no two of them have one name."""


def format_api_version(group: str) -> str:
    """As it stands in an object."""
    return f"{group}/v1" if group else "v1"


def create_list_path(key: tuple[str, str], namespace: str = "") -> str:
    """Where objects of a kind are listed, of all namespaces or of one."""
    group, _ = key
    namespace_path = f"/namespaces/{namespace}" if namespace else ""
    return f"{f'/apis/{group}/v1' if group else '/api/v1'}{namespace_path}/{REVIEW_TARGETS[key].plural}"
