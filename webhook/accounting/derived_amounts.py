"""Amounts that a cap derives from several resources of a pod: a weighted sum, or a product for each container.

A weighted sum weighs the effective request of each resource. That is the amount that kube-scheduler sets aside on a
node for the whole life of the pod, so the sum is never less than the pod uses at one time. A device of a class counts
with the largest weight of the names by which it counts, in whatever way it is requested.

A product multiplies the requests of each container, since the second factor is an amount of each device: HAMi gives
every `nvidia.com/gpu` of a container its `nvidia.com/gpumem`. The products are added up as requests are: containers and
sidecars run together, an init step runs alone above the sidecars before it, and overhead is one container more.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from tallygate.webhook.accounting.claim_charge import (
    NO_MAPPINGS,
    ClassMappings,
    DeviceSources,
    compute_requested_devices,
    find_device_sources,
)
from tallygate.webhook.accounting.pod_requests import EffectiveRequest, compute_requests
from tallygate.webhook.accounting.pod_resources import (
    ContainerResources,
    ContainerRole,
    PodResources,
    Quantities,
)
from tallygate.webhook.accounting.quantity import Quantity
from tallygate.webhook.objects.devices import DeviceRequest

_TIMES = " × "


class WeightedSum(msgspec.Struct, frozen=True):
    """The sum of the effective requests with these weights; `classes` are the weights of devices of claims."""

    weights: Mapping[str, int]
    classes: Mapping[str, int]

    @property
    def identity(self) -> str:
        """A hash of the definition: the amounts of two equal ones are comparable."""
        return _hash_definition(["weights", sorted(self.weights.items()), sorted(self.classes.items())])

    @property
    def sources(self) -> DeviceSources:
        """The ways to a device that count, with the weight of each class."""
        return DeviceSources(frozenset(self.weights), frozenset(self.classes), self.classes)

    def compute_amount(self, _: PodResources, requests: Mapping[str, int]) -> int:
        """Return the amount of a pod with these effective requests."""
        return sum(weight * max(requests.get(name, 0), 0) for name, weight in self.weights.items())

    def find_incomplete(self, _: PodResources) -> tuple[str, ...]:
        """Return no container: each resource counts by itself."""
        return ()

    def explain(self, resources: PodResources, total: str) -> str:
        """Return the sum as a line: `3 nvidia.com/mig-3g.40gb × 4 + 1 nvidia.com/gpu × 7 = 19 gpu-slices`."""
        requests = compute_requests(resources).amounts
        terms = [
            f"{requests[name]} {name}{_TIMES}{weight}"
            for name, weight in self.weights.items()
            if requests.get(name, 0) > 0
        ]
        return f"{' + '.join(terms)} = {total}"


class Product(msgspec.Struct, frozen=True):
    """The product of the requests of each container, one factor for each set of resources.

    A claim for devices of `classes` has the first factors and not the others, so its product is unknown.
    """

    name: str
    factors: tuple[frozenset[str], ...]
    resources: tuple[str, ...]
    classes: frozenset[str]

    def __str__(self) -> str:
        """Return the definition: `nvidia.com/gpu × nvidia.com/gpumem`."""
        return _TIMES.join(self.resources)

    @property
    def identity(self) -> str:
        """A hash of the definition: the amounts of two equal ones are comparable."""
        return _hash_definition(["product", [sorted(each) for each in self.factors]])

    def compute_amount(self, resources: PodResources, _: Mapping[str, int]) -> int:
        """Return the amount of a pod with these resources."""
        return self._multiply(resources).quantities.get(self.name, _ZERO).value()

    def counts_claim(self, requests: Collection[DeviceRequest]) -> bool:
        """Return whether a claim with these requests gets devices that are a factor: their product is unknown."""
        sources = {self.name: DeviceSources(frozenset(), self.classes)}
        return bool(self.classes and compute_requested_devices(requests, sources))

    def find_incomplete(self, resources: PodResources) -> tuple[str, ...]:
        """Return the containers that request some of the factors, and not all: their product is not what they use."""
        return tuple(each.name for each in (*resources.containers, *resources.init) if self._is_incomplete(each))

    def describe_incomplete(self, resources: PodResources, container: str) -> str:
        """Return the factors that a container requests, and those that it lacks.

        It reads `requests 1 nvidia.com/gpu and lacks nvidia.com/gpucores`.
        """
        requests = {each.name: each.requests for each in (*resources.containers, *resources.init)}[container]
        amounts = [*zip(self._list_amounts(requests), self.resources, strict=True)]
        has = ", ".join(f"{amount} {resource}" for amount, resource in amounts if amount)
        return f"requests {has} and lacks {', '.join(resource for amount, resource in amounts if not amount)}"

    def explain(self, resources: PodResources, total: str) -> str:
        """Return the product as a line: `2 nvidia.com/gpu × 8000 nvidia.com/gpumem = 16000 gpu-memory`.

        Of several containers it has the sum of their products, with their names.
        """
        parts = [*self._format_terms(resources)]
        line = " + ".join(f"{name} {product}" for name, product in parts) if len(parts) > 1 else parts[0][1]
        return f"{line} = {total}"

    def _format_terms(self, resources: PodResources) -> Iterator[tuple[str, str]]:
        """Yield the containers whose products make up the amount of a pod; of equal init steps the first."""
        by_name = {each.name: each.requests for each in (*resources.containers, *resources.init)}
        terms = [each for each in self._multiply(resources).list_terms(self.name) if each.is_counted and each.quantity]
        steps = [each for each in terms if each.role is ContainerRole.INIT]
        for each in terms:
            if each.role is ContainerRole.OVERHEAD:
                yield "overhead", self._format(resources.overhead)
            elif each.role is not ContainerRole.INIT or each is steps[0]:
                yield each.container, self._format(by_name[each.container])
                if each.sidecars:
                    yield "sidecars", f"{each.sidecars.value()}"

    def _multiply(self, resources: PodResources) -> EffectiveRequest:
        """Return the effective request of a pod that requests the products."""

        def replace(container: ContainerResources) -> ContainerResources:
            return ContainerResources(container.name, container.role, self._quantify(container.requests), _NONE)

        containers, init = tuple(map(replace, resources.containers)), tuple(map(replace, resources.init))
        return compute_requests(PodResources(containers, init, overhead=self._quantify(resources.overhead)))

    def _quantify(self, requests: Quantities) -> Quantities:
        amount = self._compute(requests)
        return {self.name: Quantity.from_int(amount)} if amount else _NONE

    def _compute(self, requests: Quantities) -> int:
        product = 1
        for amount in self._list_amounts(requests):
            product *= amount
        return product

    def _is_incomplete(self, container: ContainerResources) -> bool:
        amounts = self._list_amounts(container.requests)
        return any(amounts) and not all(amounts)

    def _list_amounts(self, requests: Quantities) -> list[int]:
        """Return the amount of each factor, rounded up to whole units."""
        return [
            sum(max(requests[name].value(), 0) for name in factor if name in requests) if requests else 0
            for factor in self.factors
        ]

    def _format(self, requests: Quantities) -> str:
        amounts = zip(self._list_amounts(requests), self.resources, strict=True)
        return _TIMES.join(f"{amount} {resource}" for amount, resource in amounts)


DerivedAmount = WeightedSum | Product
_NONE: Quantities = {}
_ZERO = Quantity.from_int(0)


def create_weighted_sum(
    weights: Mapping[str, int],
    resources_by_class: Mapping[str, str],
    mapped_classes: Mapping[str, Collection[str]],
    former: ClassMappings = NO_MAPPINGS,
) -> WeightedSum:
    """Return the weighted sum of these names, with the ways to a device under each, as `find_device_sources`."""
    by_resource: dict[str, int] = {}
    by_class: dict[str, int] = {}
    sources = find_device_sources(weights, resources_by_class, mapped_classes, former)
    for name, weight in weights.items():
        each = sources.get(name, DeviceSources(frozenset({name}), frozenset()))
        for resource in each.resources:
            by_resource[resource] = max(weight, by_resource.get(resource, 0))
        for class_name in each.classes:
            by_class[class_name] = max(weight, by_class.get(class_name, 0))
    return WeightedSum(_sort(by_resource), _sort(by_class))


def create_product(
    name: str,
    resources: Iterable[str],
    resources_by_class: Mapping[str, str],
    former: ClassMappings = NO_MAPPINGS,
) -> Product:
    """Return the product of these resources under a name, with the ways to a device, as `find_device_sources`."""
    resources = tuple(resources)
    sources = find_device_sources(resources, resources_by_class, {}, former)
    factors = tuple(sources[each].resources if each in sources else frozenset({each}) for each in resources)
    return Product(name, factors, resources, frozenset().union(*(each.classes for each in sources.values())))


def _sort(weights: dict[str, int]) -> Mapping[str, int]:
    return dict(sorted(weights.items()))


def _hash_definition(parts: list[object]) -> str:
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:10]
