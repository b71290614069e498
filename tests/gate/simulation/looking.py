"""What must hold, looked at after every write of a ledger and every pod that is stored.

Pod by pod, a ledger charges no less than is held or may come to be. Its tally is, to the unit, what pods held at the
revision that it says. And no more is held, or may come to be, than a cap allows. A replica reserves nothing by a count
that leaves out a pod of which it has seen that it returned to the cap with its namespace.
"""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from tests.gate.simulation.replica import Seen
from tests.gate.simulation.truth import Pod, Truth, membership, under
from tests.state.informers.pods import GPU
from webhook.admission.cap_index import CapIndex, get_cap_name
from webhook.gate.charging import ChargedPod
from webhook.state.ledger.ledger import Ledger
from webhook.state.ports import LedgerKey


class Foreign(NamedTuple):
    """A pod that came under a cap uncharged, at `revision`, when its namespace had last returned at `entered`."""

    revision: int
    entered: int


class Looking:
    """`claims` says what a pod holds or may come to hold, `caps` are all that there may be.

    Who was let in without a cap, or returned to it with a namespace, is foreign to it, until that is counted; and who
    changed since then is not told apart.
    """

    def __init__(self, truth: Truth, claims: Callable[[LedgerKey], Mapping[str, int]], caps: CapIndex) -> None:
        self._truth = truth
        self.violation = ""
        self._claims = claims
        self._caps = caps.list_caps()
        self._hard = {counted.key: counted.hard[GPU] for counted in self._caps}
        self._foreign: dict[tuple[LedgerKey, str], Foreign] = {}
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
            charged = _charged(ledger, counted, uid)
            if charged < claim and (key, uid) not in self._foreign:
                self._say(f"undercount: {_name(key)} charges {uid} {charged}; it holds or may hold {claim}")
        hard, held = self._hard[key.cap], sum(claims.values())
        if held > hard and key not in self._overfilled:
            self._say(f"over: {_name(key)} allows {hard}; {held} are held or promised")

    def stored(self, uid: str, promised: Collection[LedgerKey], judged: int) -> None:
        """Look at a pod that has just been stored, by what these ledgers had promised.

        That was judged by the namespaces as of revision `judged`.
        """
        pod = self._truth.pods[uid]
        for key in self._keys(pod.namespace):
            if key not in promised or self._entered(key, pod.namespace) > judged:
                self._excuse(key, pod)
            self.at(key)

    def returned(self, namespace: str, cap: str) -> None:
        """Excuse the pods of a namespace that has just returned to a cap, until they must have been counted."""
        for key in self._keys(namespace):
            for pod in self._truth.pods.values():
                if get_cap_name(key.cap) == cap and pod.namespace == namespace:
                    self._excuse(key, pod)

    def granted(self, key: LedgerKey, who: ChargedPod, loaded: int, seen: Seen) -> None:
        """Look that room was reserved by a count made since the cap had come into force there.

        It must also count the pods of namespaces that returned, where this replica had `seen` both when the attempt
        began. A pod that a replica accepted uncounted after the return, since it had not seen it, may be missing.
        """
        found = self._truth.books.get(key)
        row = found[0].reservations.get(who.uid) if found else None
        if found is None or row is None or row.attempt != who.attempt:
            return
        if found[0].pods_revision < loaded:
            self._say(f"unseen: {_name(key)} promises {who.uid} room by a count before its cap came into force")
        counted, members = self._counted(key, found[0]), self._members(found[0])
        for (of, uid), foreign in self._foreign.items():
            pod = self._truth.pods.get(uid)
            was_seen = foreign.revision <= seen.pods and foreign.entered <= seen.namespaces
            if of != key or pod is None or not was_seen:
                continue
            came_later, has_left = foreign.revision > foreign.entered, pod.namespace not in members
            if found[0].namespaces_revision >= foreign.entered and (came_later or has_left):
                continue
            if _charged(found[0], counted, uid) < pod.holds:
                self._say(f"unseen: {_name(key)} promises {who.uid} room by a count before {uid} returned")

    def _keys(self, namespace: str) -> list[LedgerKey]:
        """The ledgers of the caps of which a namespace is a member now."""
        keys = [LedgerKey(counted.key, "" if counted.definition.shared else namespace) for counted in self._caps]
        return [key for key in keys if self._truth.is_member(key, namespace)]

    def _entered(self, key: LedgerKey, namespace: str) -> int:
        return self._truth.entered.get((namespace, get_cap_name(key.cap)), 0)

    def _excuse(self, key: LedgerKey, pod: Pod) -> None:
        self._foreign[key, pod.uid] = Foreign(pod.revision, self._entered(key, pod.namespace))
        self._overfilled.add(key)

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
        for (of, uid), foreign in list(self._foreign.items()):
            pod = self._truth.pods_at(foreign.revision)[uid]
            is_counted = ledger.pods_revision >= foreign.revision and ledger.namespaces_revision >= foreign.entered
            if of == key and is_counted and pod.namespace in members:
                del self._foreign[of, uid]


def _charged(ledger: Ledger, counted: Mapping[str, int], uid: str) -> int:
    """Return the GPUs that a ledger charges to a pod, by what its tally counts of each pod."""
    row = ledger.reservations.get(uid)
    return counted.get(uid, 0) + (row.compute_reserved().get(GPU, 0) if row else 0)


def _name(key: LedgerKey) -> str:
    return key.namespace or "the shared ledger"
