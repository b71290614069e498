"""The device classes under a cap: their mappings to extended resources, and classes whose mapping is unknown.

The mapping of a class is its `spec.extendedResourceName`. A class that does not exist, or that this replica has not
seen yet, has an unknown one: what its claims count under an extended resource is not known then, nor whether a pod with
an extended resource gets its devices. Nothing is decided by a guess (docs/design/caps.md, rule 10).
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from types import MappingProxyType

import msgspec

from tallygate.accounting.claim_charge import NO_CLASSES, NO_MAPPINGS, ClassMappings, DeviceSources, list_claim_classes
from tallygate.accounting.names import DEVICE_CLASS_PREFIX, is_extended
from tallygate.accounting.pod_requests import compute_requests
from tallygate.accounting.pod_resources import parse_pod_resources
from tallygate.objects.core import Pod, PodSpec
from tallygate.objects.devices import ResourceClaim


class UnseenClass(msgspec.Struct, frozen=True):
    """A class that does not exist as far as this replica has seen, and the counted name that it may stand for."""

    class_name: str
    name: str

    def __str__(self) -> str:
        return (
            f"DeviceClass {self.class_name} does not exist, or was not seen yet, so it is not known what its devices "
            f"count under {self.name}"
        )


class PodClasses(msgspec.Struct, frozen=True):
    """The effect of the classes that a pod names on its charge under a cap.

    `unseen` is a class that decides it and is not known. The pod `may_count` under a hard limit by another mapping of a
    class, seen or not.
    """

    unseen: UnseenClass | None = None
    may_count: bool = False


NO_POD_CLASSES = PodClasses()
"""The result for a pod whose charge depends on no mapping of a class."""


class ClassView(msgspec.Struct, frozen=True):
    """The classes as this replica sees them, for one cap.

    `resources_by_class` has the extended resource of each class, empty if it has none. `former` are mappings that were
    valid when consumers were admitted, and by which a ledger still counts them. `open_names` are the names with a hard
    limit that a class may stand for by its mapping, each with the classes that count under it by the policy, whatever
    their mapping. `named` are the names with a hard limit under which the policy counts classes, with these.
    """

    resources_by_class: Mapping[str, str] = NO_CLASSES
    former: ClassMappings = NO_MAPPINGS
    open_names: Mapping[str, frozenset[str]] = MappingProxyType({})
    named: Mapping[str, frozenset[str]] = MappingProxyType({})

    @property
    def may_be_unseen(self) -> bool:
        """Whether an unseen class may decide what a pod or claim counts."""
        return bool(self.open_names or self.named)

    def select_mappings(self, classes: Collection[str]) -> ClassMappings:
        """Return the mappings of these classes, those of now and former ones."""
        mappings = {*self.former, *self.resources_by_class.items()}
        return frozenset((name, resource) for name, resource in mappings if resource and name in classes)

    def select_former(self, mappings: ClassMappings) -> ClassMappings:
        """Return those of these mappings that the classes do not have now."""
        return frozenset(mapping for mapping in mappings if self.resources_by_class.get(mapping[0]) != mapping[1])

    def find_in_claim(self, claim: ResourceClaim) -> UnseenClass | None:
        """Return an unseen class that decides what a claim counts; None if its charge is known."""
        if not self.open_names:
            return None
        unseen = list_claim_classes(claim) - self.resources_by_class.keys()
        return next(self._list_open(sorted(unseen)), None)

    def examine_pod(self, pod: Pod, sources: Mapping[str, DeviceSources]) -> PodClasses:
        """Return the effect of the classes that a pod names on its charge.

        A pod names a class by the resource of the class; by any extended resource it may name one that is unseen, under
        a name of the policy for this class. `sources` are the ways to a device under each name.

        Raises:
            QuantityError: if a quantity of the pod is invalid.
        """
        names, spec = self._list_device_names(pod), pod.spec
        if spec is None or not names:
            return NO_POD_CLASSES
        unseen = next(self._list_undecided(names, sources), None)
        if unseen is not None:
            amounts = compute_requests(parse_pod_resources(spec)).amounts
            requested = [name for name in names if amounts.get(name, 0) > 0]
            unseen = next(self._list_undecided(requested, sources), None)
        return PodClasses(unseen, may_count=True)

    def _list_device_names(self, pod: Pod) -> list[str]:
        """Return the resources that a pod requests, in order, by which it may name a class that counts."""
        if pod.spec is None or not self.may_be_unseen:
            return []
        return sorted(
            name
            for name in _list_requested(pod.spec)
            if name.startswith(DEVICE_CLASS_PREFIX) or (self.named and is_extended(name))
        )

    def _list_undecided(self, names: Collection[str], sources: Mapping[str, DeviceSources]) -> Iterator[UnseenClass]:
        implicit = [name.removeprefix(DEVICE_CLASS_PREFIX) for name in names if name.startswith(DEVICE_CLASS_PREFIX)]
        yield from self._list_open([class_name for class_name in implicit if class_name not in self.resources_by_class])
        extended = [name for name in names if not name.startswith(DEVICE_CLASS_PREFIX)]
        for name, classes in self.named.items():
            unseen = sorted(classes - self.resources_by_class.keys())
            if unseen and any(
                name not in sources or known_name not in sources[name].resources for known_name in extended
            ):
                yield UnseenClass(unseen[0], name)

    def _list_open(self, classes: Collection[str]) -> Iterator[UnseenClass]:
        for class_name in classes:
            for name, named in self.open_names.items():
                if class_name not in named:
                    yield UnseenClass(class_name, name)


def _list_requested(spec: PodSpec) -> set[str]:
    containers = chain(spec.containers or (), spec.init_containers or ())
    return {name for container in containers if container.resources for name in container.resources.requests or ()}
