"""The parts that random histories of one ledger share: its transitions, steps, and creations that the gate has allowed.

A creation that the gate allows is stored or lost within B.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tallygate.accounting.amounts import Amounts
from tallygate.state.ledger import expire as expiry
from tallygate.state.ledger.expire import LiveRead, ReservationAges
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ledger.recount import UsageSnapshot, recount
from tallygate.state.ledger.reserve import Exceeded, ReservationRequest, Reserved, release, reserve
from tests.schedules import ViolationError

B = 40.0
GPU = "nvidia.com/gpu"
_TICK = 7.0
_MAX_HISTORIES = 300
"""The number of histories to try until a wrong variant violates an invariant."""


class Rules:
    """The transitions of the product; a wrong variant replaces one."""

    def reserve(self, ledger: Ledger, request: ReservationRequest) -> Ledger | None:
        """Return the ledger with the reservation, None if the cap is exceeded."""
        result = reserve(ledger, request)
        assert isinstance(result, Reserved | Exceeded), result
        return result.ledger if isinstance(result, Reserved) else None

    def release(self, ledger: Ledger, uid: str, attempt: str) -> Ledger:
        """Return the ledger without the reservation of an attempt."""
        return release(ledger, uid, attempt)

    def recount(self, ledger: Ledger, snapshot: UsageSnapshot) -> Ledger:
        """Return the recounted ledger, or the same one if the snapshot is too old."""
        counted = recount(ledger, snapshot)
        return counted if isinstance(counted, Ledger) else ledger

    def expire(self, ledger: Ledger, ages: ReservationAges, read: LiveRead) -> Ledger:
        """Return the ledger without a reservation whose end a live read shows."""
        return expiry.expire(ledger, ages, read)


@dataclass
class Creation:
    """A creation that the gate has allowed; `owner` is the workload or controller of the pod, empty without one."""

    uid: str
    owner: str
    allowed_at: float
    request: ReservationRequest


@dataclass
class LedgerHistory(ABC):
    """One history; each step chooses by the random numbers of a seed. `number` counts objects and attempts."""

    rules: Rules
    seed: int
    now: float = 1000.0
    in_flight: dict[str, Creation] = field(default_factory=dict)
    number: int = 0
    ages: ReservationAges = field(default_factory=lambda: ReservationAges(B))

    def __post_init__(self) -> None:
        """Start with an empty ledger."""
        self.random = random.Random(self.seed)  # noqa: S311  # reproducible
        self.ledger = self._create_ledger()

    @abstractmethod
    def play(self) -> None:
        """Take the steps, then let everything become quiet.

        Raises:
            ViolationError: if an invariant is violated.
        """

    @abstractmethod
    def _create_ledger(self) -> Ledger:
        """Return the ledger of the begin."""

    @abstractmethod
    def _check(self) -> None:
        """Check the invariants."""

    @abstractmethod
    def _resolve(self, creation: Creation, *, is_stored: bool) -> None:
        """Store what is created, or lose it."""

    def _take_steps(self, steps: Sequence[tuple[Callable[[], None], int]], count: int) -> None:
        """Take as many steps, of these with their weights, and check the invariants after each."""
        functions, weights = zip(*steps, strict=True)
        for step in self.random.choices(functions, weights, k=count):
            step()
            self._check()

    def _store(self) -> None:
        if self.in_flight:
            self._resolve(self.random.choice(list(self.in_flight.values())), is_stored=True)

    def _lose(self) -> None:
        if self.in_flight:
            self._resolve(self.random.choice(list(self.in_flight.values())), is_stored=False)

    def _pass_time(self) -> tuple[str, ...]:
        """Let time pass: creations within B, then a write of the ledger; return the live reads that are due, by UID."""
        self.now += _TICK
        for creation in list(self.in_flight.values()):
            if self.now >= creation.allowed_at + B:
                self._resolve(creation, is_stored=self.random.random() < 0.5)
        self.ages = self.ages.observe(self.ledger, self.now).confirm_write(self.now, self.now)
        return tuple(self.ages.list_confirmed())

    def _check_charged(self, pods: int) -> None:
        """Check that the ledger charges a number of pods, and reserves nothing."""
        if self.ledger.compute_charged() != create_gpus(pods) or self.ledger.reservations:
            raise ViolationError(f"kept: {self.ledger.compute_charged()} charged for {pods} pods")


def create_gpus(count: int) -> Amounts:
    """Return an amount of GPUs."""
    return Amounts({GPU: count} if count else {})


def check_variant(create_history: Callable[[int], LedgerHistory], violation: str) -> None:
    """Play the histories of a wrong variant, by their seeds, until one violates this invariant.

    Raises:
        AssertionError: if none does.
    """
    found: set[str] = set()
    for seed in range(_MAX_HISTORIES):
        try:
            create_history(seed).play()
        except ViolationError as error:
            found.add(str(error).partition(":")[0])
        if violation in found:
            return
    raise AssertionError(f"{_MAX_HISTORIES} histories violate {sorted(found)}, not {violation}")
