"""The controller that records the admitted annotations that set limits, once the watch shows them stored."""

from collections.abc import Callable
from functools import partial
from itertools import groupby
from typing import Final

from tallygate.gate.limit_admissions import AdmittedLimit, LimitAdmissions
from tallygate.kube.client import OBJECT_LIMITS, ApiClient, ClientConfig
from tallygate.server.telemetry.json_log import FailureLog, Logger
from tallygate.server.worker import Worker, WorkerPace, WorkerTask
from tallygate.state.informers.named_stores import NamespaceRecord
from tallygate.state.kubernetes.limit_record_store import LimitRecord, LimitRecordStore

_INTERVAL_SECONDS: Final = 1.0


class LimitRecordController:
    """The worker that writes the records of this replica's admissions; other replicas write theirs."""

    def __init__(
        self,
        client_config: ClientConfig,
        namespace: str,
        admissions: LimitAdmissions,
        find_namespace: Callable[[str], NamespaceRecord | None],
        log: Logger,
    ) -> None:
        self._store = LimitRecordStore(ApiClient(client_config, OBJECT_LIMITS), namespace)
        self._admissions = admissions
        self._find_namespace = find_namespace
        self._log = log
        task = WorkerTask(
            name="limit-records",
            run=self.record_stored,
            failure_log=FailureLog(
                partial(log.warning, "limit-records-failed"), partial(log.info, "limit-records-recovered")
            ),
            interrupt=self._store.close,
        )
        self.worker = Worker(task, WorkerPace(interval=lambda: _INTERVAL_SECONDS, rest=_INTERVAL_SECONDS))

    def record_stored(self) -> bool:
        """Record the admitted changes that are stored; return False if there are none. A conflict is tried again."""
        stored = self._admissions.list_stored(self._find_namespace)
        if not stored:
            return False
        known = {record.namespace: record for record in self._store.list_records()}
        by_namespace = sorted(stored, key=_get_namespace)  # stable: the last change of a cap stays the last
        for namespace, members in groupby(by_namespace, key=_get_namespace):
            changes = list(members)
            before = known.get(namespace) or LimitRecord("", namespace, {})
            if self._store.write(_apply(before, changes)):
                self._admissions.remove(changes)
                for change in changes:
                    self._log.info("limit-recorded", namespace=namespace, cap=change.cap, set=change.text is not None)
        return True


def _get_namespace(change: AdmittedLimit) -> str:
    return change.namespace


def _apply(before: LimitRecord, changes: list[AdmittedLimit]) -> LimitRecord:
    """Return the record after these changes; the texts of an earlier namespace of the same name are dropped."""
    last = changes[-1]
    texts = dict(before.texts) if before.namespace_uid == last.namespace_uid else {}
    for change in changes:
        if change.text is None:
            texts.pop(change.cap, None)
        else:
            texts[change.cap] = change.text
    return LimitRecord(last.namespace_uid, before.namespace, texts, last.user, before.version)
