"""The names that are allowed in each context: one table for each context."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.kubernetes_codes import NAME_MALFORMED, NAME_NOT_ALLOWED, NAME_NOT_EXTENDED
from tallygate.accounting.name_rules import NameContext, find_advertised_name_problems, find_name_problems
from tallygate.accounting.names import Family, classify_name
from tallygate.accounting.problem import Reason

# The beginning of the message of each rule.
STANDARD = "must be a standard resource type or fully qualified"
FOR_CONTAINERS = "must be a standard resource for containers"
FOR_QUOTA = "must be a standard resource for quota"
NOT_EXTENDED = "doesn't follow extended resource name standard"
FOR_PODS = 'supported values: "cpu", "hugepages-", "memory"'
EMPTY_DOMAIN = "prefix part must be non-empty"
BAD_DOMAIN = "prefix part a lowercase RFC 1123 subdomain must consist of"
LONG_DOMAIN = "prefix part must be no more than 253 bytes"
EMPTY_NAME = "name part must be non-empty"
BAD_NAME = "name part must consist of alphanumeric characters"
LONG_NAME = "name part must be no more than 63 bytes"
LABEL_KEY = "a valid label key must consist of"

CONTAINER: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("cpu is allowed", "cpu", ()),
    ("memory is", "memory", ()),
    ("ephemeral storage is", "ephemeral-storage", ()),
    ("huge pages are", "hugepages-2Mi", ()),
    ("the size of huge pages is not checked here", "hugepages-foo", ()),
    ("an extended resource is", "example.com/gpu", ()),
    ("with a domain of one label", "acme/gpu", ()),
    ("with capitals in the name", "example.com/GPU_a.B", ()),
    ("with 63 bytes of name", "example.com/" + "x" * 63, ()),
    ("with 64 bytes of name it is not", "example.com/" + "x" * 64, (LONG_NAME, NOT_EXTENDED)),
    ("limits. before a domain is part of it", "limits.example.com/x", ()),
    ("a long label in the domain passes", "a" * 68 + ".com/x", ()),
    ("244 bytes of domain pass", "a" * 244 + "/x", ()),
    ("245 bytes of domain are not an extended resource", "a" * 245 + "/x", (NOT_EXTENDED,)),
    ("253 bytes of domain are not an extended resource", "a" * 253 + "/x", (NOT_EXTENDED,)),
    ("254 bytes are not a domain", "a" * 254 + "/x", (LONG_DOMAIN, NOT_EXTENDED)),
    ("kubernetes.io is accepted", "kubernetes.io/foo", ()),
    ("a subdomain of kubernetes.io is accepted", "foo.kubernetes.io/bar", ()),
    ("a look-alike of kubernetes.io is accepted", "mykubernetes.io/bar", ()),
    ("requests.kubernetes.io is accepted", "requests.kubernetes.io/x", ()),
    ("a class of devices is accepted", "deviceclass.resource.kubernetes.io/gpu", ()),
    ("a class of devices in capitals is accepted", "deviceclass.resource.kubernetes.io/UPPER", ()),
    ("a name without a domain is not", "gpu", (STANDARD, FOR_CONTAINERS)),
    ("pods are not", "pods", (FOR_CONTAINERS,)),
    ("storage is not", "storage", (FOR_CONTAINERS,)),
    ("requests.cpu is not", "requests.cpu", (FOR_CONTAINERS,)),
    ("limits.cpu is not", "limits.cpu", (FOR_CONTAINERS,)),
    ("a domain alone is not", "nvidia.com", (STANDARD, FOR_CONTAINERS)),
    ("volumes of a driver are not", "attachable-volumes-x", (STANDARD, FOR_CONTAINERS)),
    ("requests. before a domain is not", "requests.example.com/gpu", (NOT_EXTENDED,)),
    ("a capital in the domain is not", "Example.com/gpu", (BAD_DOMAIN, NOT_EXTENDED)),
    ("an underscore is not", "ex_ample.com/gpu", (BAD_DOMAIN, NOT_EXTENDED)),
    ("a dot at its end is not", "example.com./gpu", (BAD_DOMAIN, NOT_EXTENDED)),
    ("two slashes are not", "example.com/a/b", (LABEL_KEY, NOT_EXTENDED)),
    ("an empty domain is not", "/gpu", (EMPTY_DOMAIN, NOT_EXTENDED)),
    ("an empty name is not", "example.com/", (EMPTY_NAME, BAD_NAME, NOT_EXTENDED)),
    ("a hyphen before the name is not", "example.com/-gpu", (BAD_NAME, NOT_EXTENDED)),
    ("a blank in the name is not", "example.com/my gpu", (BAD_NAME, NOT_EXTENDED)),
    ("an empty name is not", "", (EMPTY_NAME, BAD_NAME, FOR_CONTAINERS)),
    ("a dot at the end is not", "cpu.", (BAD_NAME, FOR_CONTAINERS)),
    ("a bad domain beneath kubernetes.io has one problem", "Foo.kubernetes.io/x", (BAD_DOMAIN,)),
)
QUOTA: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("a request for an extended resource", "requests.example.com/gpu", ()),
    ("a class of devices", "requests.deviceclass.resource.kubernetes.io/gpu", ()),
    ("an extended resource, though it is never counted", "example.com/gpu", ()),
    ("a limit of an extended resource, though it is never counted", "limits.example.com/gpu", ()),
    ("a count", "count/deployments.apps", ()),
    ("pods", "pods", ()),
    ("services of node ports", "services.nodeports", ()),
    ("a storage class's", "gold.storageclass.storage.k8s.io/requests.storage", ()),
    ("huge pages", "hugepages-2Mi", ()),
    ("requests for huge pages", "requests.hugepages-2Mi", ()),
    ("requests for storage", "requests.storage", ()),
    ("a name without a domain is not", "gpu", (STANDARD, FOR_QUOTA)),
    ("requests. of one is not", "requests.gpu", (STANDARD, FOR_QUOTA)),
    ("limits. of one is not", "limits.foo", (STANDARD, FOR_QUOTA)),
    ("limits of huge pages are not", "limits.hugepages-2Mi", (STANDARD, FOR_QUOTA)),
    ("count alone is not", "count", (STANDARD, FOR_QUOTA)),
    ("a count without a name is not", "count/", (EMPTY_NAME, BAD_NAME)),
    ("storage is not", "storage", (FOR_QUOTA,)),
    ("a capital in requests. is not", "Requests.example.com/gpu", (BAD_DOMAIN,)),
    ("a capital in the domain is not", "requests.Example.com/gpu", (BAD_DOMAIN,)),
    ("an empty name is not", "", (EMPTY_NAME, BAD_NAME, FOR_QUOTA)),
)
POD: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("cpu", "cpu", ()),
    ("memory", "memory", ()),
    ("huge pages", "hugepages-1Gi", ()),
    ("an extended resource is not", "example.com/gpu", (FOR_PODS,)),
    ("ephemeral storage is not", "ephemeral-storage", (FOR_PODS,)),
    ("pods are not", "pods", (FOR_PODS,)),
    ("an unknown name has a message of its own", "gpu", (STANDARD,)),
    ("a malformed name has a message of its own", "a/b/c", (LABEL_KEY,)),
)
OTHER: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("storage", "storage", ()),
    ("requests.storage", "requests.storage", ()),
    ("an extended resource", "example.com/gpu", ()),
    ("a quota's name", "requests.example.com/gpu", ()),
    ("an unknown name is not", "gpu", (STANDARD,)),
    ("a malformed name is not", "/x", (EMPTY_DOMAIN,)),
)


def rows(*contexts: NameContext, table: tuple[tuple[str, str, tuple[str, ...]], ...]) -> list[object]:
    return [
        pytest.param(context, name, messages, id=f"{context}: {case}")
        for context in contexts
        for case, name, messages in table
    ]


@pytest.mark.parametrize(
    ("context", "name", "messages"),
    [
        *rows(NameContext.CONTAINER, NameContext.OVERHEAD, NameContext.LIMIT_RANGE, table=CONTAINER),
        *rows(NameContext.QUOTA, table=QUOTA),
        *rows(NameContext.POD, table=POD),
        *rows(NameContext.LIMIT_RANGE_OTHER, table=OTHER),
    ],
)
def test_a_name_is_checked_in_its_context(context: NameContext, name: str, messages: tuple[str, ...]) -> None:
    found = find_name_problems(name, context)
    assert len(found) == len(messages)
    assert all(problem.detail.startswith(begin) for problem, begin in zip(found, messages, strict=True))


@pytest.mark.parametrize("name", ["", "a b c", "gpu", "a/b/c", "Bad_Name!", "example.com/gpu"])
def test_kubernetes_accepts_every_name_of_a_node(name: str) -> None:
    assert find_name_problems(name, NameContext.NODE) == ()


@pytest.mark.parametrize(
    "name",
    [
        "cpu", "memory", "ephemeral-storage", "pods", "storage", "hugepages-2Mi", "attachable-volumes-aws-ebs",
        "nvidia.com/gpu", "kubernetes.io/batch-cpu", "pod.alpha.kubernetes.io/opaque-int-resource-foo",
    ],
)  # fmt: skip
def test_a_node_may_advertise_a_name_that_a_container_can_request(name: str) -> None:
    assert find_advertised_name_problems(name) == ()


@pytest.mark.parametrize(
    "name", ["", "a b c", "gpu", "a/b/c", "Bad_Name!", "Example.com/gpu", "requests.nvidia.com/gpu"]
)
def test_a_node_should_not_advertise_a_name_that_no_container_can_request(name: str) -> None:
    assert find_advertised_name_problems(name) == find_name_problems(name, NameContext.CONTAINER)
    assert find_advertised_name_problems(name)


MESSAGES = (
    ("an unknown name needs a domain", "gpu", NameContext.CONTAINER, "needs a domain, as in example.com/gpu"),
    ("a quota's name has the name for containers", "requests.cpu", NameContext.CONTAINER, "a container requests 'cpu'"),
    (
        "a limit's name has the name for containers",
        "limits.memory",
        NameContext.CONTAINER,
        "a container requests 'memory'",
    ),
    (
        "an extended quota's name has the name for containers",
        "requests.nvidia.com/gpu",
        NameContext.CONTAINER,
        "a container requests 'nvidia.com/gpu'",
    ),
    ("two slashes are named", "example.com/a/b", NameContext.CONTAINER, "has more than one slash"),
    ("a missing domain is named", "/gpu", NameContext.CONTAINER, "'/gpu' has no domain"),
    ("a missing name is named", "example.com/", NameContext.CONTAINER, "'example.com/' has no name"),
    ("a bad domain is shown", "Example.com/gpu", NameContext.CONTAINER, "'Example.com' is not a domain"),
    ("a bad name is shown", "example.com/my gpu", NameContext.CONTAINER, "'my gpu' is not a name for a resource"),
    (
        "a long name has the maximal length",
        "x.io/" + "g" * 64,
        NameContext.CONTAINER,
        "must be no more than 63 bytes",
    ),
    (
        "a long domain has the maximal length",
        "a" * 254 + "/x",
        NameContext.CONTAINER,
        "must be no more than 253 bytes",
    ),
    ("a domain too long for quotas has the reason", "a" * 250 + "/x", NameContext.CONTAINER, "244 bytes at most"),
    ("a pod's own resources are named", "nvidia.com/gpu", NameContext.POD, "only cpu, memory and hugepages-<size>"),
    ("a quota has a countable name", "storage", NameContext.QUOTA, "write requests.<domain>/<name>"),
)


@pytest.mark.parametrize(("name", "context", "part"), [row[1:] for row in MESSAGES], ids=[row[0] for row in MESSAGES])
def test_a_message_suggests_a_valid_name(name: str, context: NameContext, part: str) -> None:
    assert any(part in problem.message for problem in find_name_problems(name, context))


@given(st.text(max_size=400), st.sampled_from(NameContext))
def test_every_problem_has_a_known_code_and_a_message_of_readable_length(name: str, context: NameContext) -> None:
    for problem in find_name_problems(name, context):
        assert problem.code in {NAME_MALFORMED, NAME_NOT_ALLOWED, NAME_NOT_EXTENDED}
        assert problem.reason in {Reason.INVALID, Reason.NOT_SUPPORTED}
        assert problem.detail
        assert 0 < len(problem.message) < 1500


def test_a_name_of_a_megabyte_gives_a_short_message() -> None:
    for name in ("x" * 1_000_000, "x" * 1_000_000 + "/" + "y" * 1_000_000, "/" * 1_000_000):
        assert all(len(problem.message) < 400 for problem in find_name_problems(name, NameContext.CONTAINER))


@given(st.text("ab.-/", max_size=12))
def test_a_name_that_a_container_may_request_is_well_formed(name: str) -> None:
    if "/" in name and not find_name_problems(name, NameContext.CONTAINER):
        assert classify_name(name) is Family.EXTENDED
