"""The registration of the gate, by which API servers ask about a cap, and replicas that wait for it (rule 14)."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tallygate.admission.cap_index import CapIndex, get_policy_key
from tallygate.gate.restored_caps import RestoredCaps
from tests.gate.simulation.counts import CountRecorder
from tests.gate.simulation.device_policies import PolicyVersion, list_ledger_caps
from tests.gate.simulation.ground_truth import GroundTruth
from tests.gate.simulation.replica import Replica
from tests.gate.simulation.store import Store

LAG = 6.0
"""The seconds after which every API server is assumed to have a registration."""
NARROW_SECONDS = 2.0
"""The seconds for which a replica that leads has lacked a cap before it narrows the registration."""


class Version(NamedTuple):
    """A version of the registration: when it was written, and each cap that it covers with a number.

    A cap that is dropped and covered again has another number.
    """

    written_at: float = 0.0
    covered: Mapping[str, int] = {}


@dataclass
class Registration:
    """The registration that is stored, all its versions, and the one that the API server that lags has.

    The first version is that of a gate that is not registered yet: the API servers ask about nothing.

    `binding` are the caps that are recorded, until a replica unloads them: nothing is stored uncharged under them.
    """

    versions: list[Version] = field(default_factory=lambda: [Version()])
    seen: int = 0
    binding: set[str] = field(default_factory=set)
    writes: int = 0

    @property
    def covered(self) -> Mapping[str, int]:
        """The caps that the stored registration covers."""
        return self.versions[-1].covered

    def write(self, wanted: frozenset[str], now: float) -> bool:
        """Write the caps to be covered; return whether this is a change."""
        if wanted == self.covered.keys():
            return False
        self.writes += 1
        self.versions.append(Version(now, {cap: self.covered.get(cap, self.writes) for cap in sorted(wanted)}))
        return True

    def list_asked(self, server: int, now: float) -> Mapping[str, int]:
        """Return the caps that an API server, 0 or 1, asks about: the latter one lags by `LAG`."""
        while self.seen + 1 < len(self.versions) and self.versions[self.seen + 1].written_at + LAG <= now:
            self.seen += 1
        return self.covered if server == 0 else self.versions[self.seen].covered


class AskedCap(NamedTuple):
    """The number of a cap in the registration, when a replica first read it, and whether it was active before that."""

    number: int
    since: float
    is_early: bool


class AskedCaps:
    """The caps that a replica takes for asked about, by its reads of the registration and its own clock.

    The first read is that at the start: the caps may be active in other replicas.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._asked: dict[str, AskedCap] | None = None

    def read(self, covered: Mapping[str, int]) -> None:
        """Read the registration."""
        before = self._asked
        self._asked = {cap: self._find_asked(before, cap, number) for cap, number in covered.items()}

    def _find_asked(self, before: Mapping[str, AskedCap] | None, cap: str, number: int) -> AskedCap:
        known = before.get(cap) if before is not None else None
        if known is not None and known.number == number:
            return known
        return AskedCap(number, self._clock(), is_early=before is None or known is not None)

    def is_active(self, cap: str) -> bool:
        """Return whether a cap that is loaded is active for admissions."""
        asked = (self._asked or {}).get(cap)
        return asked is not None and (asked.is_early or self._clock() >= asked.since + LAG)

    def find_listed_at(self, cap: str) -> float | None:
        """Return the time since which a cap that is loaded may stand in the Lease of this replica, or None."""
        asked = (self._asked or {}).get(cap)
        return asked.since + LAG if asked is not None and self._clock() >= asked.since + LAG else None


class RegisteredReplica(Replica):
    """A replica in which a cap is active only once the API servers ask about it."""

    def __init__(  # noqa: PLR0913, PLR0917  # those of a replica
        self,
        number: int,
        truth: GroundTruth,
        recorder: CountRecorder,
        store: Store,
        policy: PolicyVersion,
        registration: Registration,
    ) -> None:
        self._registration = registration
        self.asked = AskedCaps(lambda: truth.now)
        self.asked.read(registration.covered)
        self._loaded_at: dict[str, float] = {}
        self.prepared: set[str] = set()
        """The caps without active ledgers, of those that the record lacks."""
        self._changes = 0
        self._lacked_since: dict[str, float] = {}
        super().__init__(number, truth, recorder, store, policy)
        self._restored = RestoredCaps(
            caps=lambda: self.policy.caps,
            usage_lister=self._usage_lister,
            ledgers=self._ledgers,
            activation=self._cap_activation,
            nonce=self.create_nonce,
            monotonic=self.clock,
        )

    def load(self, policy: PolicyVersion) -> None:
        """Load a version of the policies; its caps are active once the API servers ask about them."""
        self.policy, now = policy, self._truth.now
        keys = {cap.key for cap in policy.caps.list_caps()}
        self._lacked_since = {
            cap: self._lacked_since.get(cap, now) for cap in self._registration.covered if cap not in keys
        }
        self._loaded_at = {cap: self._loaded_at.get(cap, now) for cap in keys}
        self._registration.binding.intersection_update(keys)
        self.refresh()

    def prepare(self) -> None:
        """Let the ledgers of caps that the record lacks count first, unless the record changes meanwhile."""
        changes = self._changes
        found = self._restored.prepare({cap.key for cap in self.policy.caps.list_caps()} - self._truth.recorded)
        if changes == self._changes:
            self.prepared.update(found)

    def forget(self, caps: Collection[str]) -> None:
        """Forget that caps have no active ledgers, since the record has changed."""
        if caps:
            self._changes += 1
            self.prepared.difference_update(caps)
            self._restored.prepare(())

    def refresh(self) -> None:
        """Activate what is asked about as of now; an active cap is active since the revision of the cluster then."""
        caps = list_ledger_caps(self.get_caps())
        if {each.key for each in caps} != self.loaded.keys() or not self.loaded:
            self.loaded = {each.key: self.loaded.get(each.key, self._truth.revision) for each in caps}
            self._activate()

    def get_caps(self) -> CapIndex:
        """Return the active caps."""
        loaded = self.policy.caps.list_caps()
        return select_caps(self.policy, frozenset(cap.key for cap in loaded if self.asked.is_active(cap.key)))

    def read_registration(self) -> None:
        """Read the stored registration."""
        self.asked.read(self._registration.covered)
        self.refresh()

    def list_wanted(self) -> frozenset[str]:
        """Return the caps that the registration must cover, as a replica that leads writes it.

        It keeps what the record has, and for a time what this replica has had.
        """
        keys, now = {cap.key for cap in self.policy.caps.list_caps()}, self._truth.now
        return frozenset(keys | {cap for cap in self._registration.covered if not self.may_drop(cap, now)})

    def may_drop(self, cap: str, now: float) -> bool:
        """Return whether the registration may drop a cap that this replica lacks."""
        lacked_since = self._lacked_since.get(cap, now)
        return cap not in self._truth.recorded and now >= lacked_since + NARROW_SECONDS

    def find_listed_at(self, cap: str) -> float | None:
        """Return the time since which the Lease of this replica lists a cap, or None."""
        listed_at, loaded_at = self.asked.find_listed_at(cap), self._loaded_at.get(cap)
        return max(listed_at, loaded_at) if listed_at is not None and loaded_at is not None else None

    def list_listed(self) -> Mapping[str, float]:
        """Return the caps that the Lease of this replica lists, with the times since when."""
        found = {cap.key: self.find_listed_at(cap.key) for cap in self.policy.caps.list_caps()}
        return {cap: listed_at for cap, listed_at in found.items() if listed_at is not None}

    def get_loaded_everywhere_since(self, cap: str) -> float | None:
        """Return the time since which every replica has listed a cap, or None."""
        listed_at = self._truth.loaded_at.get(get_policy_key(cap))
        return None if listed_at is None else listed_at + self.clock() - self._truth.clock()

    def catch_up(self) -> None:
        """Receive every event, and lead alone: what this replica lists is listed everywhere."""
        self._registration.write(self.list_wanted(), self._truth.now)
        self.read_registration()
        for cap in self.policy.caps.list_caps():
            listed_at = self.find_listed_at(cap.key)
            if listed_at is not None:
                self._truth.loaded_at.setdefault(cap.key, listed_at)
        super().catch_up()


_selected: dict[tuple[int, frozenset[str]], CapIndex] = {}


def select_caps(policy: PolicyVersion, keys: frozenset[str]) -> CapIndex:
    """Return the caps of a version with these keys."""
    if keys == {cap.key for cap in policy.caps.list_caps()}:
        return policy.caps
    selected = _selected.get((id(policy.documents), keys))
    if selected is None:
        caps = tuple(cap.definition for cap in policy.caps.list_caps() if cap.key in keys)
        selected = _selected[id(policy.documents), keys] = CapIndex(replace(policy.documents, caps=caps), None)
    return selected
