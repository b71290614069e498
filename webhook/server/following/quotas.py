"""ResourceQuotas beside the gate: what they will say to a workload is told when it is applied."""

from collections.abc import Sequence

from webhook.objects.core import ResourceQuota
from webhook.server.reporting.logs import Logger
from webhook.state.watch.pool import Access
from webhook.state.watch.quotas import QUOTAS, QuotaView
from webhook.state.watch.runner import Followed, Follower


class InformerQuotaLister:
    """Follows the quotas of a cluster. While they are not known nobody is told of them, and the log says so."""

    def __init__(self, access: Access, log: Logger) -> None:
        self._store = QuotaView()
        self._log = log
        self._was_synced = True
        self._informer = Follower(QUOTAS, access, self._store.apply, self._store.__len__)
        self.start, self.stop = self._informer.start, self._informer.stop

    def get_status(self) -> Followed:
        """How it goes."""
        return self._informer.followed()

    def list_quotas(self, namespace: str) -> Sequence[ResourceQuota] | None:
        """The quotas of a namespace; None while what is known of them is old, or was never listed."""
        stale = self._informer.followed().stale
        self._log_change(stale)
        return None if stale else self._store.list_quotas(namespace)

    def _log_change(self, stale: str | None) -> None:
        """Log that workloads are not told of quotas, once, and once that they are again."""
        is_synced = stale is None
        if is_synced == self._was_synced:
            return
        self._was_synced = is_synced
        if is_synced:
            self._log.info("quotas-known", message="workloads are told again what ResourceQuota will say to their pods")
        else:
            self._log.warning("quotas-not-known", message=f"workloads are not told of ResourceQuotas: {stale}")
