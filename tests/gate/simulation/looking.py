"""What must hold, looked at after every write of a ledger and every pod that is stored.

Pod by pod, a ledger charges no less than is held or may come to be. Its tally is, to the unit, what pods held at the
revision that it says. And no more is held, or may come to be, than a cap allows.
"""

from collections.abc import Callable, Collection, Mapping

from tests.gate.simulation.truth import Truth, membership, under
from tests.state.watch.pods import GPU
from webhook.admission.capping import CapIndex
from webhook.gate.charging import ChargedPod
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import LedgerKey


class Looking:
    """`claims` says what a pod holds or may come to hold, `caps` are all that there may be.

    Who was let in without a cap is foreign to it, until that is counted; and who changed since then is not told apart.
    """

    def __init__(self, truth: Truth, claims: Callable[[LedgerKey], Mapping[str, int]], caps: CapIndex) -> None:
        self._truth = truth
        self.violation = ""
        self._claims = claims
        self._caps = caps.list_caps()
        self._hard = {counted.key: counted.hard[GPU] for counted in self._caps}
        self._foreign: dict[tuple[LedgerKey, str], int] = {}
        self._overfilled: set[LedgerKey] = set()

    def at(self, key: LedgerKey) -> None:
        """Look at one ledger; the first thing that does not hold is kept as `violation`."""
        found = self._truth.books.get(key)
        if found is None or found[0].initializer:
            return
        ledger, claims = found[0], self._claims(key)
        counted = self._counted(key, ledger)
        self._pardon(key, ledger)
        for uid, claim in sorted(claims.items()):
            row = ledger.reservations.get(uid)
            charged = counted.get(uid, 0) + (row.compute_reserved().get(GPU, 0) if row else 0)
            if charged < claim and (key, uid) not in self._foreign:
                self._say(f"undercount: {_name(key)} charges {uid} {charged}; it holds or may hold {claim}")
        hard, held = self._hard[key.cap], sum(claims.values())
        if held > hard and key not in self._overfilled:
            self._say(f"over: {_name(key)} allows {hard}; {held} are held or promised")

    def stored(self, uid: str, promised: Collection[LedgerKey]) -> None:
        """Look at a pod that has just been stored, by what these ledgers had promised."""
        pod = self._truth.pods[uid]
        for counted in self._caps:
            key = LedgerKey(counted.key, "" if counted.definition.shared else pod.namespace)
            if key not in promised:
                self._foreign[key, uid] = pod.revision
                self._overfilled.add(key)
            self.at(key)

    def granted(self, key: LedgerKey, who: ChargedPod, loaded: int) -> None:
        """Look that a promise was written on what was counted since the cap had come into force there."""
        found = self._truth.books.get(key)
        row = found[0].reservations.get(who.uid) if found else None
        if found and row and row.attempt == who.attempt and found[0].pods_revision < loaded:
            self._say(f"unseen: {_name(key)} promises {who.uid} room by a count before its cap came into force")

    def _say(self, violation: str) -> None:
        self.violation = self.violation or violation

    def _counted(self, key: LedgerKey, ledger: Ledger) -> dict[str, int]:
        """What the tally says of each pod, if it is what it says to be."""
        pods = self._truth.pods_at(ledger.pods_revision)
        members = self._members(ledger)
        counted = {uid: pod.holds for uid, pod in pods.items() if under(key, pod) and pod.namespace in members}
        if GPU in ledger.resources and ledger.used.get(GPU, 0) != sum(counted.values()):
            self._say(
                f"tally: {_name(key)} counts {ledger.used.get(GPU, 0)} at revision {ledger.pods_revision}, when pods "
                "held "
                f"{sum(counted.values())}"
            )
        return counted

    def _members(self, ledger: Ledger) -> Collection[str]:
        """The namespaces that a ledger was counted with: those that there were at some moment, or one of them."""
        some = [*self._truth.memberships, *({name} for name in frozenset().union(*self._truth.memberships))]
        return next((each for each in some if membership(each) == ledger.namespaces_hash), ())

    def _pardon(self, key: LedgerKey, ledger: Ledger) -> None:
        members = self._members(ledger)
        for (of, uid), revision in list(self._foreign.items()):
            pod = self._truth.pods_at(revision)[uid]
            if of == key and ledger.pods_revision >= revision and pod.namespace in members:
                del self._foreign[of, uid]


def _name(key: LedgerKey) -> str:
    return key.namespace or "the shared ledger"
