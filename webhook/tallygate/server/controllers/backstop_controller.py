"""The controller that keeps the backstop in the cluster: what enforces a part of the policies while no gate answers.

Only the leader writes, and only while a webhook configuration is left to the gate: an administrator who deletes both
to get out, or has an own registration, also decides about the backstop. The controller compiles the policies again when
they, the namespaces or the device classes have changed, and compares the cluster with them once a minute.

The quotas of a cap are written once the cap is recorded as active: before that the gate counts first and denies
nothing, and a quota would. Those of its former definition are deleted where they differ from the present one.
"""

import math
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from tallygate.admission.self_registration import is_left_to_gate, parse_choices
from tallygate.backstop.compilation import Compilation, compare_objects, compile_policies
from tallygate.backstop.compiled_objects import POLICY_LABEL, CompiledObject
from tallygate.backstop.resource_quotas import ObservedCluster
from tallygate.policy.model import PolicySet
from tallygate.server.interfaces import ObjectStore
from tallygate.server.telemetry.json_log import FailureLog, Logger
from tallygate.server.worker import Worker, WorkerPace, WorkerTask
from tallygate.state.kubernetes.registration_store import StoredConfiguration

_INTERVAL_SECONDS: Final = 10.0
_FULL_PERIOD_SECONDS: Final = 60.0
_REST_SECONDS: Final = 1.0
_MAX_WRITES: Final = 100  # in a run
_TIMEOUT_SECONDS: Final = 5.0
_ALWAYS_EXCLUDED: Final = "kube-system"
_QUOTA: Final = "ResourceQuota"
_WRITE_ORDER: Final = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", _QUOTA)
_DELETION_ORDER: Final = ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy", _QUOTA)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackstopSource:
    """The parts of the gate on which the backstop depends.

    Args:
        namespace: the gate's own namespace.
        policies: returns the active policies.
        list_unrecorded: returns the names of the caps that are not recorded as active yet.
        observe: returns the namespaces and device classes, and a value that changes with them; None before they are
            known.
        read_configurations: returns the webhook configurations of the gate's name, in at most some seconds.
        is_leader: returns whether this replica writes.
        monotonic: returns seconds.
        now: returns the present time, by which overrides end.
    """

    namespace: str
    policies: Callable[[], PolicySet]
    list_unrecorded: Callable[[], frozenset[str]]
    observe: Callable[[Collection[str]], tuple[ObservedCluster, Hashable] | None]
    read_configurations: Callable[[float], Sequence[StoredConfiguration]]
    is_leader: Callable[[], bool]
    monotonic: Callable[[], float]
    now: Callable[[], datetime]


class BackstopController:
    """The worker that keeps the compiled objects of the active policies in a cluster."""

    def __init__(self, store: ObjectStore, source: BackstopSource, log: Logger) -> None:
        self._store = store
        self._source = source
        self._log = log
        self._key: Hashable = None
        self._compared_at = -math.inf
        self._state = "standby"
        self._objects = 0
        task = WorkerTask(
            name="backstop",
            run=self._run_due,
            failure_log=FailureLog(partial(log.warning, "backstop-failed"), partial(log.info, "backstop-recovered")),
            describe=self._describe,
            interrupt=store.close,
        )
        self.worker = Worker(task, WorkerPace(interval=lambda: _INTERVAL_SECONDS, rest=_REST_SECONDS))

    def _describe(self) -> dict[str, object]:
        return {"state": self._state, **({"objects": self._objects} if self._state == "complete" else {})}

    def _run_due(self) -> bool:
        """Write and delete what differs, if something has changed, or a minute has passed.

        Raises:
            TallygateError: if an object could not be read or written; the next run goes on.
        """
        if not self._source.is_leader():
            self._state, self._key = "standby", None
            return True
        ours = [
            stored for stored in self._source.read_configurations(_TIMEOUT_SECONDS) if is_left_to_gate(stored.typed)
        ]
        if not ours:
            self._state, self._key = "not ours", None
            return True
        exempt = {name for stored in ours for name in parse_choices(stored.typed).exempt_namespaces}
        observed = self._source.observe(frozenset({_ALWAYS_EXCLUDED, self._source.namespace, *exempt}))
        if observed is None:
            self._state = "waiting"
            return True
        cluster, version = observed
        policies, unrecorded = self._source.policies(), self._source.list_unrecorded()
        key, now = (policies.digest, version, unrecorded, cluster.excluded_namespaces), self._source.monotonic()
        if key == self._key and now < self._compared_at + _FULL_PERIOD_SECONDS:
            return False
        self._state, self._key = "waiting", None
        if self._write(compile_policies(policies, cluster, self._source.now()), unrecorded):
            self._state, self._key, self._compared_at = "complete", key, now
        else:
            self.worker.wake()
        return True

    def _write(self, compilation: Compilation, unrecorded: Collection[str]) -> bool:
        """Write what differs, with at most `_MAX_WRITES` requests; return whether that was all."""
        applied = self._store.list_objects()
        expected, found = (
            {_get_key(content): content for content in objects} for objects in (compilation.objects, applied)
        )
        changes: list[_Change] = []
        for difference in compare_objects(compilation.objects, applied):
            key = (difference.kind, difference.namespace, difference.name)
            if key not in expected or _is_quota_of(expected[key], unrecorded):
                if key in found:
                    changes.append(_Change(difference.kind, found[key], is_deletion=True))
            else:
                changes.append(_Change(difference.kind, expected[key], is_deletion=False))
        self._objects = len(expected)
        if not changes:
            return True
        changes.sort(key=_Change.get_rank)
        owner = self._store.read_owner()
        for change in changes[:_MAX_WRITES]:
            if change.is_deletion:
                self._store.delete(change.content)
            else:
                self._store.apply(change.content, owner)
        left = len(changes[_MAX_WRITES:])
        self._log.info("backstop-written", objects=len(changes) - left, left=left, owned=owner is not None)
        return left == 0


@dataclass(frozen=True, slots=True)
class _Change:
    """An object that is deleted as it was listed, or written as it is compiled."""

    kind: str
    content: CompiledObject
    is_deletion: bool

    def get_rank(self) -> tuple[bool, int]:
        """Return the place of the change: what enforces nothing without another object comes first, and goes last."""
        return self.is_deletion, (_DELETION_ORDER if self.is_deletion else _WRITE_ORDER).index(self.kind)


def _get_key(content: CompiledObject) -> tuple[str, str, str]:
    metadata = content["metadata"]
    return content["kind"], metadata.get("namespace") or "", metadata["name"]


def _is_quota_of(content: CompiledObject, caps: Collection[str]) -> bool:
    return content["kind"] == _QUOTA and (content["metadata"].get("labels") or {}).get(POLICY_LABEL) in caps
