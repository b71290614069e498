"""The member namespaces of a ledger, with a hash of them and the revisions since which they are the same.

A group of a cap has the namespaces with its value of the label: a namespace whose label changes leaves one ledger and
enters another, as by the selector of a cap (docs/design/caps.md, rule 5).
"""

import hashlib
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache

import msgspec

from tallygate.admission.cap_index import ActiveCap
from tallygate.state.informers.named_stores import Labels, MemberNamespaces, NamespaceStore
from tallygate.state.ports import LedgerKey

_MAX_HASHES = 4096


class Membership(msgspec.Struct, frozen=True):
    """The member namespaces of one ledger: their names, and a hash of them.

    The members were the same at `revision` and at every earlier one down to `unchanged_since`. A ledger that was
    counted before `last_change` may lack pods: a namespace that left the cap for a while may have got pods that no cap
    counted.
    """

    names: frozenset[str]
    hash: str
    revision: int
    unchanged_since: int
    last_change: int

    def choose_revision(self, preferred: int) -> int:
        """Return the revision to record for this membership: the lowest possible, for replicas that are further behind.

        It is `preferred`, where that lies between both limits: the revisions of idle replicas differ by bookmarks only.
        """
        return max(self.unchanged_since, self.last_change, min(preferred, self.revision))


class MembershipFinder:
    """A finder of the member namespaces in the namespace store, for any thread."""

    def __init__(self, namespaces: NamespaceStore) -> None:
        self._namespaces = namespaces
        self._hashes: dict[str, tuple[frozenset[str], str]] = {}

    def find(self, cap: ActiveCap, key: LedgerKey) -> Membership | None:
        """Return the member namespaces of a ledger; None before namespaces are listed."""
        if not key.namespace:
            members = self._list_members(cap)
            if members is None:
                return None
            names_hash, unchanged_since = self._hash_members(cap, members.names), members.unchanged_since
            return Membership(members.names, names_hash, members.revision, unchanged_since, unchanged_since)
        revision, unchanged_since = self._namespaces.revision, self._namespaces.unchanged_since
        if revision is None:
            return None
        namespace = self._namespaces.find(key.namespace)
        if namespace is None:
            return Membership(frozenset(), _EMPTY_HASH, revision, unchanged_since, unchanged_since)
        if not cap.matches_namespace(key.namespace, namespace.labels):
            return Membership(frozenset(), _EMPTY_HASH, revision, unchanged_since, namespace.revision)
        name = key.namespace
        return Membership(frozenset({name}), _hash_single_name(name), revision, unchanged_since, namespace.revision)

    def list_members_by_cap(self, cap: ActiveCap) -> Sequence[tuple[ActiveCap, Collection[str]]] | None:
        """Return a cap, or each of its groups, with its member namespaces; None before namespaces are listed."""
        if not cap.definition.group_by:
            members = self._list_members(cap)
            return None if members is None else [(cap, members.names)]
        groups = self._namespaces.list_groups(cap.policy_key, cap.find_group_value)
        if groups is None:
            return None
        return [(cap.create_group(value), names) for value, names in groups.names_by_group.items()]

    def _list_members(self, cap: ActiveCap) -> MemberNamespaces | None:
        if cap.group_value is None:
            return self._namespaces.list_members(cap.key, _create_selector(cap))
        groups = self._namespaces.list_groups(cap.policy_key, cap.find_group_value)
        if groups is None:
            return None
        names = groups.names_by_group.get(cap.group_value, frozenset())
        return MemberNamespaces(names, groups.revision, groups.unchanged_since)

    def _hash_members(self, cap: ActiveCap, names: frozenset[str]) -> str:
        """Return the hash of the members; the last one of each cap is cached, since every creation needs it."""
        known = self._hashes.get(cap.key)
        if known is None or (known[0] is not names and known[0] != names):
            if len(self._hashes) >= _MAX_HASHES:
                self._hashes.clear()
            known = self._hashes[cap.key] = names, _hash_names(names)
        return known[1]


def _create_selector(cap: ActiveCap) -> Callable[[str, Labels], bool]:
    return lambda name, labels: bool(cap.matches_namespace(name, labels))


def _hash_names(names: Collection[str]) -> str:
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:16]


_EMPTY_HASH = _hash_names(())


@lru_cache(maxsize=4096)
def _hash_single_name(name: str) -> str:
    return _hash_names((name,))
