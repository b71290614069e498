"""Claims of the stress tests: their class, the requests that write them, and the gates and watches around a test."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from e2e.claims import DRIVER, ROOT, claim, device_class, exactly
from e2e.stress.clients import Request
from e2e.stress.device_usage import DeviceUsage
from e2e.stress.environment import StressEnvironment
from e2e.stress.objects import GPU, cap, creates
from e2e.stress.pod_usage import Limit
from e2e.stress.replicas import Replicas
from e2e.stress.watcher import Watcher

CLASS = "stress-gpus"
"""The class of all devices; its extended resource is `GPU`."""

ALTERNATIVES = (1, 2)
"""The numbers of devices between which a claim with alternatives leaves the choice."""

_ALL_CLAIMS = f"{ROOT}/resourceclaims"
_MERGE = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class ClaimTest:
    """The gates of a test, its namespace, and the devices that are used there."""

    replicas: Replicas
    namespace: str
    usage: DeviceUsage
    watchers: tuple[Watcher, ...]

    def until_current(self) -> None:
        """Wait until the watches have seen all that is stored.

        Raises:
            ClusterError: if it takes too long.
        """
        for each in self.watchers:
            each.until_current()


@contextmanager
def prepare_claims(environment: StressEnvironment, hard: int, bound: float, count: int = 3) -> Iterator[ClaimTest]:
    """Run gates under a cap of `hard` devices, and watch a namespace of theirs, for as long as the block runs.

    Raises:
        ClusterError: if something does not start in time.
    """
    environment.apply([device_class(CLASS, GPU)])
    try:
        with (
            environment.gates(count, [cap("gpus", {GPU: str(hard)}, ["stress-*"])], "kubernetes", bound) as replicas,
            environment.namespaces() as (namespace,),
        ):
            usage = track_devices(namespace, hard)
            with watch_devices(environment, usage) as watchers:
                yield ClaimTest(replicas, namespace, usage, watchers)
    finally:
        environment.kubectl("delete", "deviceclass", CLASS)


def track_devices(name: str, hard: int) -> DeviceUsage:
    """Return the use of devices by a namespace under a limit."""
    return DeviceUsage(Limit(hard, GPU, lambda namespace, _: namespace if namespace == name else None))


@contextmanager
def watch_devices(environment: StressEnvironment, usage: DeviceUsage) -> Iterator[tuple[Watcher, ...]]:
    """Watch pods and claims for as long as the block runs."""
    with (
        Watcher(environment.access, [usage]) as pods,
        Watcher(environment.access, [usage], _ALL_CLAIMS) as claims,
    ):
        yield pods, claims


def create_claim(namespace: str, name: str, request: Mapping[str, Any]) -> Request:
    """Create a claim with this request."""
    return Request(name, "POST", get_claims_path(namespace), json.dumps(claim(name, dict(request))).encode())


def create_claims(namespace: str, names: Iterable[str]) -> list[Request]:
    """Create claims of these names, for one device each."""
    return [create_claim(namespace, name, exactly(1, CLASS)) for name in names]


def create_both(namespace: str, names: Iterable[str]) -> list[Request]:
    """Create pods and claims of these names in turn, for one device each."""
    ordered = list(names)
    return [*creates(namespace, ordered[::2]), *create_claims(namespace, ordered[1::2])]


def choose_alternatives() -> dict[str, Any]:
    """Return a request for the first available of `ALTERNATIVES`."""
    alternatives = [{"name": f"choice-{count}", "deviceClassName": CLASS, "count": count} for count in ALTERNATIVES]
    return {"name": "gpu", "firstAvailable": alternatives}


def delete_claim(namespace: str, name: str) -> Request:
    """Delete a claim."""
    return Request(name, "DELETE", f"{get_claims_path(namespace)}/{name}")


def allocate(namespace: str, name: str, count: int, *, is_patch: bool = False) -> Request:
    """Allocate a claim with alternatives as the scheduler does, unless it has devices.

    With `is_patch` the request carries no revision, and the API server tries it again after a conflict.
    """
    results = [
        {"request": f"gpu/choice-{count}", "driver": DRIVER, "pool": "none", "device": f"{name}-{number}"}
        for number in range(count)
    ]
    allocation = {"devices": {"results": results}}
    return _write_status(
        namespace,
        name,
        lambda status: {"allocation": allocation, **status},
        {"allocation": allocation} if is_patch else None,
    )


def deallocate(namespace: str, name: str) -> Request:
    """End the allocation of a claim."""
    return _write_status(
        namespace, name, lambda status: {key: value for key, value in status.items() if key != "allocation"}, None
    )


def get_claims_path(namespace: str) -> str:
    """Return the path of the claims of a namespace."""
    return f"{ROOT}/namespaces/{namespace}/resourceclaims"


def _write_status(
    namespace: str,
    name: str,
    edit: Callable[[Mapping[str, Any]], dict[str, Any]],
    patch: Mapping[str, Any] | None,
) -> Request:
    path = f"{get_claims_path(namespace)}/{name}/status"
    if patch is not None:
        return Request(name, "PATCH", path, json.dumps({"status": patch}).encode(), _MERGE)
    return Request(name, "PUT", path, edit=lambda stored: {**stored, "status": edit(stored.get("status", {}))})
