"""The record of the caps that were active, which tells a new cap from one whose ledger is lost (rule 7).

The leader writes it before any ledger of a cap becomes active, so a cap that it lacks was never active: no limit
was enforced under it yet. It belongs to another kind of object than the ledgers, so that the deletion of all ledgers
leaves it. The name of a cap counts as well as its key: a cap with other counting rules than the recorded ones has
changed, and is not new.
"""

from collections.abc import Callable, Collection

from tallygate.admission.cap_index import get_cap_name
from tallygate.state.ports import LeaseStore

RECORD_LEASE = "tallygate-active-caps"
"""The name of the Lease with the keys of the caps that were active."""

PREPARED_MARK = "~"
"""The first character, in the record, of a cap that is not active yet and whose former ledgers count first."""

READY_SECONDS = 5.0
"""The time after the in-flight bound in which a ledger is written, listed and counted, as a rule."""

_LEADER_SECONDS = 5  # until the leader runs next, and reconciles


def is_known(record: Collection[str], cap: str) -> bool:
    """Return whether a record has a cap, by its key, or an earlier definition of it; one with a mark was not active."""
    return cap in record or get_cap_name(cap) in {get_cap_name(key) for key in record}


def create_lease_reader(store: LeaseStore) -> Callable[[str], bool]:
    """Return the reader of the record in a store of leases: it returns whether a cap, by its key, was active.

    Each call reads the record after it began: a replica that remembers the record may admit under a cap that has
    become active meanwhile. It raises RetryLaterError and StoreUnavailableError.
    """

    def was_active(cap: str) -> bool:
        lease = store.read(RECORD_LEASE)
        return lease is not None and is_known(lease.caps or (), cap)

    return was_active


def create_process_reader(first_caps: Collection[str]) -> Callable[[str], bool]:
    """Return the reader for ledgers in memory, which are lost when the process ends and at no other time.

    The caps with the names `first_caps` are those at the start: they may have been active before it. Any other cap is
    new as long as its definition stays the same.
    """
    keys: dict[str, str] = {}

    def was_active(cap: str) -> bool:
        name = get_cap_name(cap)
        return name in first_caps or keys.setdefault(name, cap) != cap

    return was_active


class CapActivation:
    """The newness of caps, and the time at which ledgers that are not active are expected to be.

    `was_active` reads the record for the key of a cap. `unix_time` returns seconds of the Unix epoch, `in_flight_bound`
    is B in seconds. `find_wait` returns the seconds until every API server asks about a cap, by its key (rule 14).
    """

    def __init__(
        self,
        was_active: Callable[[str], bool],
        unix_time: Callable[[], float],
        in_flight_bound: float,
        find_wait: Callable[[str], float] = lambda _: 0.0,
    ) -> None:
        self._was_active = was_active
        self._unix_time = unix_time
        self._in_flight_bound = in_flight_bound
        self._find_wait = find_wait

    def is_new(self, cap: str) -> bool:
        """Return whether a cap, by its key, was never active, by a read that begins now.

        Raises:
            RetryLaterError, StoreUnavailableError: if the record cannot be read.
        """
        return not self._was_active(cap)

    def estimate_time(self, cap: str, waited_seconds: float = 0.0) -> int:
        """Return the time at which a ledger of a cap is active, in seconds of the Unix epoch.

        It has waited for `waited_seconds` since every API server asks about the cap, by its key.
        """
        remaining = max(self._in_flight_bound + READY_SECONDS - waited_seconds, 0.0) + _LEADER_SECONDS
        return int(self._unix_time() + self._find_wait(cap) + remaining)
