"""ResourceQuotas beside the gate: what they will say to a workload is told when it is applied."""

from collections.abc import Sequence

from webhook.objects.core import ResourceQuota
from webhook.server.reporting.logs import Logger
from webhook.state.watch.pool import Access
from webhook.state.watch.quotas import QUOTAS, QuotaView
from webhook.state.watch.runner import Followed, Follower


class FollowedQuotas:
    """Follows the quotas of a cluster. While they are not known nobody is told of them, and the log says so."""

    def __init__(self, access: Access, log: Logger) -> None:
        self._view = QuotaView()
        self._log = log
        self._is_known = True
        self._follower = Follower(QUOTAS, access, self._view.apply, self._view.__len__)
        self.start, self.stop = self._follower.start, self._follower.stop

    def followed(self) -> Followed:
        """How it goes."""
        return self._follower.followed()

    def list_quotas(self, namespace: str) -> Sequence[ResourceQuota] | None:
        """The quotas of a namespace; None while what is known of them is old, or was never listed."""
        stale = self._follower.followed().stale
        self._note(stale)
        return None if stale else self._view.list_quotas(namespace)

    def _note(self, stale: str | None) -> None:
        """Log that workloads are not told of quotas, once, and once that they are again."""
        is_known = stale is None
        if is_known == self._is_known:
            return
        self._is_known = is_known
        if is_known:
            self._log.info("quotas-known", message="workloads are told again what ResourceQuota will say to their pods")
        else:
            self._log.warning("quotas-not-known", message=f"workloads are not told of ResourceQuotas: {stale}")
