"""A store of leases in memory, which may be out of reach."""

from collections.abc import Sequence
from dataclasses import replace

from webhook.state.ports import Lease, StoreUnavailableError


class Leases:
    """A `LeaseStore` in a dict."""

    def __init__(self) -> None:
        self.stored: dict[str, Lease] = {}
        self.revision = 0
        self.is_down = False

    def list_leases(self) -> Sequence[Lease]:
        """All."""
        self._reached()
        return list(self.stored.values())

    def write(self, lease: Lease) -> bool:
        """Compare and swap."""
        self._reached()
        if (self.stored[lease.name].version if lease.name in self.stored else "") != lease.version:
            return False
        self.revision += 1
        self.stored[lease.name] = replace(
            lease, version=f"{self.revision}", acquire_time=lease.acquire_time or f"{self.revision}"
        )
        return True

    def remove(self, lease: Lease) -> None:
        """Compare and remove."""
        self._reached()
        if self.stored[lease.name].version == lease.version:
            del self.stored[lease.name]

    def _reached(self) -> None:
        if self.is_down:
            raise StoreUnavailableError("connection refused")
