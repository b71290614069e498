"""A store of leases in memory, which a test can make unavailable."""

from collections.abc import Sequence
from dataclasses import replace

from tallygate.state.ports import Lease, StoreUnavailableError


class MemoryLeaseStore:
    """A `LeaseStore` in a dict; `is_down` makes every call fail."""

    def __init__(self) -> None:
        self.stored: dict[str, Lease] = {}
        self.revision = 0
        self.is_down = False

    def list_leases(self) -> Sequence[Lease]:
        """Return all leases."""
        self._fail_if_down()
        return list(self.stored.values())

    def read(self, name: str) -> Lease | None:
        """Return one lease, or None."""
        self._fail_if_down()
        return self.stored.get(name)

    def write(self, lease: Lease) -> bool:
        """Store the lease if its version is current, and return whether it was."""
        self._fail_if_down()
        if (self.stored[lease.name].version if lease.name in self.stored else "") != lease.version:
            return False
        self.revision += 1
        self.stored[lease.name] = replace(
            lease, version=f"{self.revision}", acquire_time=lease.acquire_time or f"{self.revision}"
        )
        return True

    def remove(self, lease: Lease) -> None:
        """Remove the lease if its version is current."""
        self._fail_if_down()
        if self.stored[lease.name].version == lease.version:
            del self.stored[lease.name]

    def _fail_if_down(self) -> None:
        if self.is_down:
            raise StoreUnavailableError("connection refused")
