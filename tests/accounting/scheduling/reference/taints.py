"""Taints and tolerations (api v0.36.3 core/v1/toleration.go, CH scheduling/corev1/helpers.go)."""

from tests.accounting.scheduling.reference.objects import Json, get_spec

DO_NOT_SCHEDULE = ("NoSchedule", "NoExecute")
"""DoNotScheduleTaintsFilterFunc in framework/plugins/helper/taint.go."""


def tolerates(toleration: Json, taint: Json) -> bool:
    """Implement Toleration.ToleratesTaint; the comparison operators are behind a feature gate that is off in 1.36."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    match toleration.get("operator") or "Equal":
        case "Equal":
            return (toleration.get("value") or "") == (taint.get("value") or "")
        case "Exists":
            return True
    return False


def is_tolerated(taint: Json, pod: Json) -> bool:
    """Implement TolerationsTolerateTaint."""
    return any(tolerates(each, taint) for each in get_spec(pod).get("tolerations") or [])


def has_untolerated_taint(node: Json, pod: Json) -> bool:
    """Implement FindMatchingUntoleratedTaint for the taints with NoSchedule and NoExecute."""
    taints = get_spec(node).get("taints") or []
    return any(each.get("effect") in DO_NOT_SCHEDULE and not is_tolerated(each, pod) for each in taints)
