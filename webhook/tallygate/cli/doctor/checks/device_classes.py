"""The check of the classes and the slices of devices by which claims count under caps."""

from collections.abc import Iterable, Iterator, Mapping

from tallygate.accounting.claim_charge import find_device_sources
from tallygate.cli.doctor.check_result import (
    Check,
    CheckResult,
    combine_results,
    create_pass,
    create_unknown,
    create_warning,
    format_kubectl,
    format_names,
)
from tallygate.cli.doctor.facts import GateFacts, Unavailable
from tallygate.policy.model import NamespaceCap


def _check_devices(facts: GateFacts) -> CheckResult:
    classes = facts.device_classes
    if isinstance(classes, Unavailable):
        return create_unknown(f"the classes of devices cannot be listed: {classes.reason}")
    if isinstance(facts.policies, Unavailable):
        if not classes:
            return create_pass("the cluster has no classes of devices, so no claim counts by its class")
        return create_unknown(
            f"the classes of devices that caps count are unknown: {facts.policies.reason}; name the policy files by "
            "--policies"
        )
    caps = facts.policies.caps
    results = [result for cap in caps for result in _check_cap(facts, cap, classes)]
    results += _check_slices(facts, caps)
    counted = {name for cap in caps for name in _list_counted_classes(cap, classes)}
    uncounted = sorted(classes.keys() - counted)
    rest = f"; claims of these count under no cap: {format_names(uncounted)}" if uncounted else ""
    return combine_results(results, create_pass(f"classes of devices that caps count: {len(counted)}{rest}"))


def _check_slices(facts: GateFacts, caps: Iterable[NamespaceCap]) -> Iterator[CheckResult]:
    """Yield the result for caps that count devices by attributes or capacities, if no slice shows these."""
    by_allocation = (
        f"{cap.name} ({name})" for cap in caps for name, device in cap.devices.items() if device.is_by_allocation
    )
    names = format_names(sorted(by_allocation))
    if isinstance(facts.published_devices, Unavailable):
        yield create_unknown(f"the devices of these caps cannot be listed: {names}: {facts.published_devices.reason}")
    elif facts.published_devices == 0:
        yield create_warning(
            f"no ResourceSlice publishes a device, so nothing is allocated under these caps: {names}",
            format_kubectl(facts.location, "get", "resourceslices"),
        )


def _check_cap(facts: GateFacts, cap: NamespaceCap, classes: Mapping[str, str]) -> Iterator[CheckResult]:
    """Yield a warning for the classes of a cap that do not exist, and for a filter that no claim passes."""
    counted = _list_counted_classes(cap, classes)
    if missing := sorted(counted - classes.keys()):
        yield create_warning(
            f"cap {cap.name} counts classes of devices that do not exist: {format_names(missing)}",
            format_kubectl(facts.location, "get", "deviceclasses"),
        )
    if counted and (cap.pods.priority_classes or cap.pods.node_selector):
        names = format_names(sorted(_find_sources(cap, classes)))
        yield create_warning(
            f"cap {cap.name} counts {names} for pods of some priority classes or nodes only, and a claim for devices "
            "has neither: it counts no claim"
        )


def _list_counted_classes(cap: NamespaceCap, classes: Mapping[str, str]) -> frozenset[str]:
    return frozenset().union(*_find_sources(cap, classes).values())


def _find_sources(cap: NamespaceCap, classes: Mapping[str, str]) -> Mapping[str, frozenset[str]]:
    """Return the classes that count under each name of a cap."""
    mapped = {name: device.classes for name, device in cap.devices.items()}
    sources = find_device_sources(cap.list_requested_names(), classes, mapped)
    return {name: source.classes for name, source in sources.items()}


CHECKS = (
    Check(
        "devices",
        "Caps count the classes of devices that the cluster has",
        "WARN: a cap counts a class that does not exist, or counts devices for some priority classes or nodes only, or "
        "by attributes or capacities, and no ResourceSlice publishes a device; "
        "UNKNOWN: classes exist, and no policies were named, or the classes or needed ResourceSlices cannot be listed",
        _check_devices,
    ),
)
