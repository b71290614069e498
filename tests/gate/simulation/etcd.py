"""Etcd, which stalls and goes on, and the ledgers in it, which somebody may take away."""

from collections.abc import Mapping

from tests.gate.simulation.ground import OLD_NAMESPACES, Act, Ground


class Etcd:
    """What it holds is `Truth`; this is what befalls it."""

    def __init__(self, ground: Ground) -> None:
        self._truth = ground.truth
        self.acts: Mapping[str, Act] = {
            "stall": self._stall,
            "commit": self._commit,
            "arrive": self._arrive,
            "lose": self._lose,
            "clear": self._clear,
        }

    def _stall(self, _a: int, _b: int) -> str:
        if self._truth.stalled:
            return ""
        self._truth.stalled = True
        return "etcd stalls"

    def _commit(self, a: int, _b: int) -> str:
        if self._truth.stalled:
            self._truth.stalled = a % 4 != 0
            return "" if self._truth.stalled else "etcd goes on"
        if not self._truth.waiting:
            return ""
        self._truth.waiting.pop(0)()
        return f"etcd commits what came first (revision {self._truth.revision})"

    def _arrive(self, a: int, _b: int) -> str:
        """A write that was late comes to etcd after all."""
        if not self._truth.late:
            return ""
        self._truth.commit(self._truth.late.pop(a % len(self._truth.late)))
        return "a late write arrives"

    def _lose(self, a: int, _b: int) -> str:
        """Somebody deletes a ledger, past its finalizer: not in the first moments of its namespace (docs/caps.md)."""
        keys = [key for key in self._truth.books if key.namespace in {"", *OLD_NAMESPACES}]
        if not keys or self._truth.waiting or self._truth.stalled:
            return ""
        key = keys[a % len(keys)]
        del self._truth.books[key]
        return f"the ledger {key} is lost"

    def _clear(self, a: int, _b: int) -> str:
        """A ledger that counts and promises nothing is taken away, whatever its namespace: that may be done always."""
        empty = [key for key, (ledger, _) in self._truth.books.items() if not (ledger.reservations or ledger.used)]
        empty = [key for key in empty if not self._truth.books[key][0].initializer]
        if not empty or self._truth.waiting or self._truth.stalled:
            return ""
        key = empty[a % len(empty)]
        del self._truth.books[key]
        return f"the ledger {key}, which is empty, is taken away"
