"""Which caps count a pod, and what it holds under each.

Pure: what has been promised to whom is `webhook.state`'s matter; the gate brings both together.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec

from webhook.accounting.amounts import Amounts
from webhook.accounting.charge import Charge, compute_charge, compute_hard_limits, is_as_requested
from webhook.accounting.fingerprint import Fingerprint, FingerprintCache
from webhook.objects.core import Pod
from webhook.policy.model import NamespaceCap, PodFilter, PolicySet
from webhook.policy.resolve import matches_labels, matches_namespace

_NAMESPACES_REMEMBERED = 4096
_NO_CHARGE = Charge()
_EVERY_POD = PodFilter()

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Counted:
    """A cap ready to count: `key` is its name and a hash of what it counts, `hard` and `soft` are in amounts.

    Two caps of one name that count differently have different keys, and so different ledgers.
    """

    cap: NamespaceCap
    key: str
    hard: Amounts
    soft: Amounts
    names: frozenset[str] = field(init=False)
    """What it counts, bounded or only watched."""
    _is_choosy: bool = field(init=False, repr=False, compare=False)
    _charges: FingerprintCache[Charge] = field(init=False, default_factory=FingerprintCache, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", frozenset(self.hard.keys() | self.soft.keys()))
        object.__setattr__(self, "_is_choosy", self.cap.pods != _EVERY_POD)

    def held(self, pod: Pod | None, alike: Fingerprint | None = None) -> Charge:
        """What a pod holds under this cap: nothing when there is none, or when the cap does not count it.

        `alike` is its likeness, where that was asked for already.

        Raises:
            QuantityError: one of its quantities is none.
        """
        if pod is None or (self._is_choosy and not _counts(self.cap.pods, pod)):
            return _NO_CHARGE
        if alike is None or not is_as_requested(pod):
            return compute_charge(pod, self.names)
        found = self._charges.get(alike)
        if found is None:
            found = compute_charge(pod, self.names)
            self._charges.put(alike, found)
        return found


@dataclass(frozen=True, slots=True)
class CapsInForce:
    """The caps over one namespace; `unknown` names those that hang on labels nobody knows."""

    caps: tuple[Counted, ...]
    unknown: tuple[str, ...]


class CapIndex:
    """All caps of a policy set, ready to be asked."""

    def __init__(self, policies: PolicySet) -> None:
        self._caps = tuple(sorted((_counted(cap) for cap in policies.caps), key=lambda counted: counted.key))
        self.needs_labels = any(cap.namespaces.selector for cap in policies.caps)
        self._over = lru_cache(maxsize=_NAMESPACES_REMEMBERED)(self._sort_out)

    def __bool__(self) -> bool:
        return bool(self._caps)

    def all(self) -> tuple[Counted, ...]:
        """Every cap, in the order of their keys."""
        return self._caps

    def over(self, namespace: str, labels: Labels | None) -> CapsInForce:
        """The caps over a namespace, in the order in which their ledgers are written."""
        return self._over(namespace, frozenset(labels.items()) if labels is not None and self.needs_labels else None)

    def _sort_out(self, namespace: str, labels: frozenset[tuple[str, str]] | None) -> CapsInForce:
        known = dict(labels) if labels is not None else None
        matches = [(counted, matches_namespace(counted.cap.namespaces, namespace, known)) for counted in self._caps]
        return CapsInForce(
            tuple(counted for counted, match in matches if match),
            tuple(counted.cap.name for counted, match in matches if match is None),
        )


def cap_of(key: str) -> str:
    """The name of the cap whose key this is."""
    return key.rpartition("-")[0]


def _counted(cap: NamespaceCap) -> Counted:
    return Counted(cap, f"{cap.name}-{_fingerprint(cap)}", compute_hard_limits(cap.hard), compute_hard_limits(cap.soft))


def _fingerprint(cap: NamespaceCap) -> str:
    """What the cap counts, as 10 hex digits: namespaces, filter and sharing, but not how much there may be."""
    counts = msgspec.json.encode((cap.namespaces, cap.shared, cap.pods), order="sorted", enc_hook=dict)
    return hashlib.sha256(counts).hexdigest()[:10]


def _counts(pods: PodFilter, pod: Pod) -> bool:
    spec = pod.spec
    if pods.priority_classes and (spec is None or spec.priority_class_name not in pods.priority_classes):
        return False
    wanted = (spec.node_selector if spec else None) or {}
    if any(wanted.get(key) != value for key, value in pods.node_selector.items()):
        return False
    return matches_labels(pods.objects, pod.metadata.labels if pod.metadata else None)
