"""Amounts that a cap derives from resources and annotations of a pod: a weighted sum, or a product for each container.

A weighted sum weighs the effective request of each resource. That is the amount that kube-scheduler sets aside on a
node for the whole life of the pod, so the sum is never less than the pod uses at one time. A device of a class counts
with the largest weight of the names by which it counts, in whatever way it is requested. An amount that annotations
request (`gpu_annotations`) may be added, or count alone.

A product multiplies the requests of each container, since the second factor is an amount of each device: HAMi gives
every `nvidia.com/gpu` of a container its `nvidia.com/gpumem`. The products are added up as requests are: containers and
sidecars run together, an init step runs alone above the sidecars before it, and overhead is one container more. A
factor may have a default, for containers that request another factor and not this one.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from tallygate.accounting.claim_charge import (
    NO_MAPPINGS,
    ClassMappings,
    DeviceSources,
    compute_requested_devices,
    find_device_sources,
)
from tallygate.accounting.gpu_annotations import GpuAnnotation, RequestedAmount, compute_requested
from tallygate.accounting.pod_requests import EffectiveRequest, compute_requests
from tallygate.accounting.pod_resources import ContainerResources, ContainerRole, PodResources, Quantities
from tallygate.accounting.quantity import Quantity
from tallygate.objects.core import Pod
from tallygate.objects.devices import DeviceRequest

_TIMES = " × "
_NO_ANNOTATIONS: Mapping[str, str] = MappingProxyType({})
_NO_DEFAULTS: Mapping[str, int] = MappingProxyType({})


class CountedPod(NamedTuple):
    """The parts of a pod that decide its derived amounts; `requests` are its effective requests."""

    resources: PodResources
    requests: Mapping[str, int]
    annotations: Mapping[str, str] = _NO_ANNOTATIONS

    @classmethod
    def create(cls, pod: Pod, resources: PodResources, requests: Mapping[str, int] | None = None) -> "CountedPod":
        """Return these parts of a pod with its resources, and with its effective requests where they are computed."""
        metadata = pod.metadata
        annotations = (metadata.annotations if metadata else None) or _NO_ANNOTATIONS
        return cls(resources, compute_requests(resources).amounts if requests is None else requests, annotations)


class WeightedSum(msgspec.Struct, frozen=True):
    """The sum of the effective requests with these weights; `classes` are the weights of devices of claims.

    The amount that annotations request (`annotation`) is added, if the sum counts it.
    """

    weights: Mapping[str, int]
    classes: Mapping[str, int]
    annotation: GpuAnnotation | None = None

    @property
    def identity(self) -> str:
        """A hash of the definition: the amounts of two equal ones are comparable."""
        parts: list[object] = ["weights", sorted(self.weights.items()), sorted(self.classes.items())]
        return _hash_definition(parts if self.annotation is None else [*parts, self.annotation])

    @property
    def sources(self) -> DeviceSources:
        """The ways to a device that count, with the weight of each class."""
        return DeviceSources(frozenset(self.weights), frozenset(self.classes), self.classes)

    def compute_amount(self, pod: CountedPod) -> int:
        weighed = sum(weight * max(pod.requests.get(name, 0), 0) for name, weight in self.weights.items())
        return weighed + self._read_annotations(pod).amount

    def find_incomplete(self, pod: CountedPod) -> tuple[str, ...]:
        """Return the annotations that are no amount. Each resource counts by itself."""
        return self._read_annotations(pod).invalid

    def explain(self, pod: CountedPod, total: str) -> str:
        """Return the sum as a line: `3 nvidia.com/mig-3g.40gb × 4 + 1 nvidia.com/gpu × 7 = 19 gpu-slices`."""
        terms = [
            f"{pod.requests[name]} {name}{_TIMES}{weight}"
            for name, weight in self.weights.items()
            if pod.requests.get(name, 0) > 0
        ]
        if calculation := self._read_annotations(pod).calculation:
            terms.append(calculation)
        return f"{' + '.join(terms)} = {total}"

    def _read_annotations(self, pod: CountedPod) -> RequestedAmount:
        if self.annotation is None:
            return _NOTHING_REQUESTED
        return compute_requested(pod.annotations, self.annotation)


class Product(msgspec.Struct, frozen=True):
    """The product of the requests of each container, one factor for each set of resources.

    `defaults` are the amounts of factors that a container lacks while it requests others, by resource. A claim for
    devices of `classes` has the first factors and not the others, so its product is unknown.
    """

    name: str
    factors: tuple[frozenset[str], ...]
    resources: tuple[str, ...]
    classes: frozenset[str]
    defaults: Mapping[str, int] = _NO_DEFAULTS

    def __str__(self) -> str:
        """Return the definition: `nvidia.com/gpu × nvidia.com/gpumem`."""
        return _TIMES.join(self.resources)

    @property
    def identity(self) -> str:
        """A hash of the definition: the amounts of two equal ones are comparable."""
        parts: list[object] = ["product", [sorted(factor) for factor in self.factors]]
        return _hash_definition([*parts, [*self.defaults.items()]] if self.defaults else parts)

    def compute_amount(self, pod: CountedPod) -> int:
        return self._multiply(pod.resources).quantities.get(self.name, _ZERO).value()

    def counts_claim(self, requests: Collection[DeviceRequest]) -> bool:
        """Return whether a claim with these requests gets devices that are a factor: their product is unknown."""
        sources = {self.name: DeviceSources(frozenset(), self.classes)}
        return bool(self.classes and compute_requested_devices(requests, sources))

    def find_incomplete(self, pod: CountedPod) -> tuple[str, ...]:
        """Return the containers that request some of the factors, and not all: their product is not what they use."""
        containers = (*pod.resources.containers, *pod.resources.init)
        return tuple(container.name for container in containers if self._is_incomplete(container))

    def describe_incomplete(self, resources: PodResources, container: str) -> str:
        """Return the factors that a container requests, and those that it lacks.

        It reads `requests 1 nvidia.com/gpu and lacks nvidia.com/gpucores`.
        """
        requests = {
            own_container.name: own_container.requests for own_container in (*resources.containers, *resources.init)
        }[container]
        amounts = [*zip(self._list_amounts(requests), self.resources, strict=True)]
        has = ", ".join(f"{amount} {resource}" for amount, resource in amounts if amount)
        return f"requests {has} and lacks {', '.join(resource for amount, resource in amounts if not amount)}"

    def explain(self, pod: CountedPod, total: str) -> str:
        """Return the product as a line: `2 nvidia.com/gpu × 8000 nvidia.com/gpumem = 16000 gpu-memory`.

        Of several containers it has the sum of their products, with their names.
        """
        parts = [*self._format_terms(pod.resources)]
        line = " + ".join(f"{name} {product}" for name, product in parts) if len(parts) > 1 else parts[0][1]
        return f"{line} = {total}"

    def _format_terms(self, resources: PodResources) -> Iterator[tuple[str, str]]:
        """Yield the containers whose products make up the amount of a pod; of equal init steps the first."""
        by_name = {container.name: container.requests for container in (*resources.containers, *resources.init)}
        terms = [term for term in self._multiply(resources).list_terms(self.name) if term.is_counted and term.quantity]
        steps = [term for term in terms if term.role is ContainerRole.INIT]
        for term in terms:
            if term.role is ContainerRole.OVERHEAD:
                yield "overhead", self._format(resources.overhead)
            elif term.role is not ContainerRole.INIT or term is steps[0]:
                yield term.container, self._format(by_name[term.container])
                if term.sidecars:
                    yield "sidecars", f"{term.sidecars.value()}"

    def _multiply(self, resources: PodResources) -> EffectiveRequest:
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
        """Return the amount of each factor, or its default if another one is requested."""
        amounts = self._list_requested(requests)
        if not self.defaults or not any(amounts):
            return amounts
        return [
            amount or self.defaults.get(resource, 0) for amount, resource in zip(amounts, self.resources, strict=True)
        ]

    def _list_requested(self, requests: Quantities) -> list[int]:
        """Return the requested amount of each factor, rounded up to whole units."""
        return [
            sum(max(requests[name].value(), 0) for name in factor if name in requests) if requests else 0
            for factor in self.factors
        ]

    def _format(self, requests: Quantities) -> str:
        amounts = zip(self._list_amounts(requests), self._list_requested(requests), self.resources, strict=True)
        return _TIMES.join(
            f"{amount} {resource}{'' if amount == requested else ' by default'}"
            for amount, requested, resource in amounts
        )


DerivedAmount = WeightedSum | Product
_NONE: Quantities = {}
_NOTHING_REQUESTED = RequestedAmount()
_ZERO = Quantity.from_int(0)


def create_weighted_sum(
    weights: Mapping[str, int],
    resources_by_class: Mapping[str, str],
    mapped_classes: Mapping[str, Collection[str]],
    former: ClassMappings = NO_MAPPINGS,
    annotation: GpuAnnotation | None = None,
) -> WeightedSum:
    """Return the weighted sum of these names, with the ways to a device under each, as `find_device_sources`.

    The amount that annotations request (`annotation`) is added.
    """
    by_resource: dict[str, int] = {}
    by_class: dict[str, int] = {}
    sources = find_device_sources(weights, resources_by_class, mapped_classes, former)
    for name, weight in weights.items():
        each = sources.get(name, DeviceSources(frozenset({name}), frozenset()))
        for resource in each.resources:
            by_resource[resource] = max(weight, by_resource.get(resource, 0))
        for class_name in each.classes:
            by_class[class_name] = max(weight, by_class.get(class_name, 0))
    return WeightedSum(_sort(by_resource), _sort(by_class), annotation)


def create_product(
    name: str,
    resources: Iterable[str],
    resources_by_class: Mapping[str, str],
    former: ClassMappings = NO_MAPPINGS,
    defaults: Mapping[str, int] = _NO_DEFAULTS,
) -> Product:
    """Return the product of these resources under a name, with the ways to a device, as `find_device_sources`.

    `defaults` are the amounts of factors that a container lacks, by resource.
    """
    resources = tuple(resources)
    sources = find_device_sources(resources, resources_by_class, {}, former)
    factors = tuple(
        sources[resource].resources if resource in sources else frozenset({resource}) for resource in resources
    )
    classes = frozenset[str]().union(*(source.classes for source in sources.values()))
    return Product(name, factors, resources, classes, dict(sorted(defaults.items())))


def _sort(weights: dict[str, int]) -> Mapping[str, int]:
    return dict(sorted(weights.items()))


def _hash_definition(parts: list[object]) -> str:
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:10]
