"""Families of resource names, and Kubernetes' own predicates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting import names
from tallygate.accounting.name_rules import NameContext, _find_other_problems
from tallygate.accounting.names import (
    OPAQUE_PREFIX,
    Family,
    _classify_other_name,
    classify_name,
    is_countable,
    is_usual_extended,
)

EXTENDED = ("extended", "integer", "scheduler_scalar")
NATIVE = ("native", "overcommit_allowed")
PREFIXED = ("native", "overcommit_allowed", "prefixed_native", "scheduler_scalar")

PREDICATES = {
    "extended": names.is_extended,
    "hugepage": names.is_hugepage,
    "integer": names.is_integer,
    "native": names.is_native,
    "overcommit_allowed": names.is_overcommit_allowed,
    "prefixed_native": names.is_prefixed_native,
    "scheduler_scalar": names.is_scheduler_scalar,
}

# id, name, family, the true predicates.
TABLE: tuple[tuple[str, str, Family, tuple[str, ...]], ...] = (
    ("cpu is native", "cpu", Family.NATIVE, NATIVE),
    ("memory is native", "memory", Family.NATIVE, NATIVE),
    ("pods are counted whole", "pods", Family.NATIVE, ("integer", *NATIVE)),
    ("services of node ports are counted whole", "services.nodeports", Family.NATIVE, ("integer", *NATIVE)),
    ("configmaps are counted whole", "configmaps", Family.NATIVE, ("integer", *NATIVE)),
    ("a name without a domain is native", "gpu", Family.NATIVE, NATIVE),
    ("an empty name is native", "", Family.NATIVE, NATIVE),
    ("a domain makes it extended", "nvidia.com/gpu", Family.EXTENDED, EXTENDED),
    ("a domain of one label does too", "acme/gpu", Family.EXTENDED, EXTENDED),
    ("kubernetes.io after the slash is not a domain", "example.com/kubernetes.io", Family.EXTENDED, EXTENDED),
    ("limits. before a domain is part of the domain", "limits.example.com/gpu", Family.EXTENDED, EXTENDED),
    ("count/pods is an extended name to Kubernetes", "count/pods", Family.EXTENDED, EXTENDED),
    (
        "a class of devices is an extended name to Kubernetes",
        "gpu.deviceclass.resource.k8s.io/devices",
        Family.EXTENDED,
        EXTENDED,
    ),
    (
        "a storage class is an extended name to Kubernetes",
        "gold.storageclass.storage.k8s.io/requests.storage",
        Family.EXTENDED,
        EXTENDED,
    ),
    ("requests. before a domain is a quota's name", "requests.example.com/gpu", Family.MALFORMED, ()),
    ("kubernetes.io is native", "kubernetes.io/foo", Family.NATIVE, PREFIXED),
    ("a subdomain of kubernetes.io is native", "foo.kubernetes.io/bar", Family.NATIVE, PREFIXED),
    ("a device class's own name is native", "deviceclass.resource.kubernetes.io/gpu", Family.NATIVE, PREFIXED),
    ("requests.kubernetes.io is native", "requests.kubernetes.io/x", Family.NATIVE, PREFIXED),
    ("a look-alike is extended to us and native to Kubernetes", "mykubernetes.io/bar", Family.EXTENDED, PREFIXED),
    ("the look-alike of the design too", "notkubernetes.io/gpu", Family.EXTENDED, PREFIXED),
    ("an opaque resource is native to Kubernetes", f"{OPAQUE_PREFIX}bananas", Family.OPAQUE, PREFIXED),
    ("an opaque resource without a name is still opaque", OPAQUE_PREFIX, Family.OPAQUE, PREFIXED),
    ("other names of pod.alpha are native", "pod.alpha.kubernetes.io/x", Family.NATIVE, PREFIXED),
    (
        "huge pages may not be overcommitted",
        "hugepages-2Mi",
        Family.HUGEPAGES,
        ("hugepage", "native", "scheduler_scalar"),
    ),
    (
        "volumes of a driver are counted",
        "attachable-volumes-aws-ebs",
        Family.ATTACHABLE_VOLUMES,
        (*NATIVE, "scheduler_scalar"),
    ),
    ("a capital in the domain is malformed", "Example.com/gpu", Family.MALFORMED, ()),
    ("two slashes are malformed", "example.com/a/b", Family.MALFORMED, ()),
    ("no domain before the slash is malformed", "/gpu", Family.MALFORMED, ()),
    ("no name after the slash is malformed", "example.com/", Family.MALFORMED, ()),
    ("244 bytes of domain are extended", "a" * 244 + "/x", Family.EXTENDED, EXTENDED),
    ("245 bytes of domain are too many for a quota", "a" * 245 + "/x", Family.MALFORMED, ()),
    ("kubernetes.io after two slashes is native to Kubernetes", "a/kubernetes.io/b", Family.MALFORMED, PREFIXED),
)


@pytest.mark.parametrize(("name", "family"), [row[1:3] for row in TABLE], ids=[row[0] for row in TABLE])
def test_a_name_has_a_family(name: str, family: Family) -> None:
    assert classify_name(name) is family
    assert is_countable(name) is (family in {Family.EXTENDED, Family.OPAQUE})


@pytest.mark.parametrize(("name", "predicates"), [(row[1], row[3]) for row in TABLE], ids=[row[0] for row in TABLE])
def test_kubernetes_predicates_are_true_for_a_name(name: str, predicates: tuple[str, ...]) -> None:
    assert sorted(each for each, predicate in PREDICATES.items() if predicate(name)) == sorted(predicates)


@pytest.mark.parametrize("name", ["a" * 1_000_000 + "/gpu", "a." * 500_000, "-" * 1_000_000, "a/" * 500_000])
def test_a_name_of_a_megabyte_is_classified_in_one_pass(name: str) -> None:
    assert classify_name(name) in {Family.MALFORMED, Family.NATIVE}
    assert names.find_qualified_name_errors(name)


_PARTS = st.text("ab9-._AZ", max_size=6)
_DOMAINS = st.sampled_from(
    ["", "requests.", "hugepages-", "attachable-volumes-", "x.kubernetes.io", "a" * 244, "b" * 245]
)


@given(st.builds(lambda *parts: "".join(parts), _DOMAINS, _PARTS, st.sampled_from(["/", "", "//"]), _PARTS))
def test_a_usual_extended_name_is_one_by_the_exact_rules(name: str) -> None:
    if is_usual_extended(name):
        assert _classify_other_name(name) is Family.EXTENDED
        for context in NameContext:
            assert context is NameContext.POD or not _find_other_problems(name, context)


def test_usual_names_of_vendors_are_recognized_in_one_pass() -> None:
    assert all(map(is_usual_extended, ("nvidia.com/gpu", "a/b", f"{'a' * 244}/{'b' * 63}", "nvidia.com/mig-1g.5gb")))
    assert not any(map(is_usual_extended, (f"{'a' * 245}/b", f"a/{'b' * 64}", "a/b\n", "ä/b", "requests.a/b", "cpu")))
