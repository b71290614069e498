"""What a ResourceQuota would charge for a pod.

Source: pkg/quota/v1/evaluator/core/pods.go (PodUsageFunc, podComputeUsageHelper, QuotaV1Pod), v1.36.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from webhook.accounting.asks import Quantities, read_pod
from webhook.accounting.names import is_extended, is_hugepage
from webhook.accounting.quantity import Quantity
from webhook.accounting.requests import limits_of, requests_of
from webhook.accounting.resize import View, as_seen
from webhook.objects.pods import Pod, PodSpec

_ONE = Quantity.of(1)
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
_ENDED = ("Succeeded", "Failed")


def quota_charge(pod: Pod, now: datetime | None) -> Mapping[str, Quantity]:
    """Quota key to what this pod adds to it.

    `now` decides whether a deleted pod's grace has run out; None leaves that open, and the pod is charged.

    Raises:
        QuantityError: one of its quantities is none.
    """
    charge = {"count/pods": _ONE}
    if not is_charged(pod, now):
        return charge
    ask = as_seen(read_pod(pod.spec or PodSpec()), pod.status, View.QUOTA)
    return {**charge, **usage(requests_of(ask).quantities, limits_of(ask).quantities)}


def usage(requests: Quantities, limits: Quantities) -> dict[str, Quantity]:
    """The keys under which effective requests and limits are counted.

    Extended resources count as `requests.<name>` only; native names other than these never.
    """
    counted = {"pods": _ONE}
    for name in _COMPUTE:
        if name in requests:
            counted[name] = counted[f"requests.{name}"] = requests[name]
        if name in limits:
            counted[f"limits.{name}"] = limits[name]
    for name, quantity in requests.items():
        if is_hugepage(name):
            counted[name] = counted[f"requests.{name}"] = quantity
        if is_extended(name) or name.startswith(_DEVICE_CLASS):
            counted[f"requests.{name}"] = quantity
    return counted


def is_counted(key: str) -> bool:
    """Whether a quota on this key ever counts a pod (podResources and MatchingResources)."""
    plain = key.removeprefix("requests.")
    if plain in _COMPUTE or is_hugepage(plain) or key in ("pods", "count/pods"):
        return True
    if key.startswith("limits."):
        return key.removeprefix("limits.") in _COMPUTE
    return key != plain and (is_extended(plain) or plain.startswith(_DEVICE_CLASS))


def is_charged(pod: Pod, now: datetime | None) -> bool:
    """Whether anything but its existence is charged.

    Not when it has ended, and not when its deletion timestamp plus its grace lies in the past. That timestamp already
    includes the grace, so a deleted pod stays charged for about twice as long.

    Raises:
        ValueError: the deletion timestamp is no RFC 3339 time.
    """
    if pod.status is not None and pod.status.phase in _ENDED:
        return False
    meta = pod.metadata
    if now is None or meta is None or meta.deletion_timestamp is None or meta.deletion_grace_period_seconds is None:
        return True
    deleted = datetime.fromisoformat(meta.deletion_timestamp)
    return now <= deleted + timedelta(seconds=meta.deletion_grace_period_seconds)
