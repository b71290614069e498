"""The amounts that the stored pods and claims for devices use under caps, before a manifest is charged."""

from collections.abc import Collection, Iterable, Iterator

import msgspec

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts, format_amount
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.cli.sources.snapshot_file import SnapshotError
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.kinds import CLAIMS, SLICES
from tallygate.cluster.usage_lister import get_ledger_key
from tallygate.state.informers.consumer_columns import StoredConsumer
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey


class SnapshotUsage:
    """The used amounts by ledger; `ledgers` are without reservations."""

    def __init__(self, index: CapIndex, state: ClusterState) -> None:
        """Count the pods and claims.

        Raises:
            SnapshotError: if a pod is not as an API server would have stored it.
        """
        self.has_devices = state.knows(SLICES) and state.knows(CLAIMS)
        self._unknown: dict[LedgerKey, set[str]] = {}
        used_by_key: dict[LedgerKey, tuple[ActiveCap, Amounts]] = {}
        for namespace in sorted({*state.pods.list_namespaces(), *state.claims.list_namespaces()}):
            for cap in index.find_matching(namespace, state.namespaces.labels(namespace)).caps:
                count, key = state.count_usage(cap, (namespace,), None), get_ledger_key(cap, namespace)
                for pod in filter(None, map(state.pods.find, count.invalid)):
                    raise _create_quantity_error(cap, pod)
                used_by_key[key] = cap, used_by_key.get(key, (cap, NO_AMOUNTS))[1] + count.used
                if count.uncounted:
                    self._unknown.setdefault(key, set()).update(count.uncounted)
        self.ledgers = {key: Ledger(cap.hard, used) for key, (cap, used) in used_by_key.items()}

    def mark_counted(self, cap: ActiveCap, namespace: str, ledger: Ledger) -> Ledger:
        """Return the ledger with the names that it counts: not those of which a used amount is unknown."""
        unknown: Collection[str] = cap.device_meters.keys()
        if self.has_devices:
            unknown = self._unknown.get(get_ledger_key(cap, namespace), frozenset())
        return msgspec.structs.replace(ledger, resources=cap.counted - cap.list_sources(unknown))

    def describe_allocated(self, cap: ActiveCap, key: LedgerKey, names: Iterable[str]) -> str:
        """Return the used amounts under these names that count allocated devices, and what is not known of them."""
        if not self.has_devices:
            return "what is used under them is unknown, without the ResourceSlices and claims of a snapshot"
        ledger = self.ledgers.get(key)
        unknown: Collection[str] = self._unknown.get(key, ())
        used = NO_AMOUNTS if ledger is None else ledger.used
        return f"used {', '.join(_list_amounts(cap, names, used, unknown))}"


def _create_quantity_error(cap: ActiveCap, pod: StoredConsumer) -> SnapshotError:
    text = f"the snapshot's pod {pod.namespace}/{pod.name} has a quantity that no API server would have stored"
    try:
        cap.compute_charge(pod.group.to_pod())
    except QuantityError as error:
        text = f"{text}: {error}"
    return SnapshotError(text)


def _list_amounts(cap: ActiveCap, names: Iterable[str], used: Amounts, unknown: Collection[str]) -> Iterator[str]:
    for name in sorted(names):
        amount = "unknown" if name in unknown else format_amount(name, used.get(name, 0))
        limit = f" of {format_amount(name, cap.hard[name])}" if name in cap.hard else ""
        yield f"{amount}{limit} {name}"
