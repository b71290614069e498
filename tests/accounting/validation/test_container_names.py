"""Resource names of containers."""

import pytest

from tallygate.accounting.validation.pods import validate_pod
from tests.accounting.objects import container, pod
from tests.accounting.validation.problem_views import (
    DOMAIN,
    EXTENDED,
    FOR_CONTAINERS,
    NAME,
    STANDARD,
    list_causes,
    list_detail_texts,
)

LABEL_KEY = (
    "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' "
    "(e.g. 'example.com/MyName')"
)
EMPTY_DOMAIN = "prefix part must be non-empty"
EMPTY_NAME = "name part must be non-empty"
LONG_NAME = "name part must be no more than 63 bytes"
LONG_DOMAIN = "prefix part must be no more than 253 bytes"


def validate_limit(name: str) -> list[str]:
    """Return the details for a name in limits, and check that they equal those for requests."""
    found = list_detail_texts(validate_pod(pod(container("a", None, {name: 1}))))
    half = len(found) // 2
    assert found[:half] == found[half:]
    return found[:half]


@pytest.mark.parametrize(
    "name",
    [
        "cpu",
        "memory",
        "ephemeral-storage",
        "example.com/gpu",
        "acme/gpu",
        "example.com/GPU_a.B",
        "example.com/" + "x" * 63,
        "limits.example.com/x",
        "a" * 68 + ".com/x",
        "d" * 244 + "/x",
        "kubernetes.io/foo",
        "foo.kubernetes.io/bar",
        "mykubernetes.io/bar",
        "requests.kubernetes.io/x",
        "example.com/kubernetes.io",
        "deviceclass.resource.kubernetes.io/gpu",
        "deviceclass.resource.kubernetes.io/GPU",
        "pod.alpha.kubernetes.io/opaque-int-resource-bananas",
    ],
)
def test_a_container_may_request_a_valid_name(name: str) -> None:
    assert validate_limit(name) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpu", [STANDARD, FOR_CONTAINERS]),
        ("pods", [FOR_CONTAINERS]),
        ("storage", [FOR_CONTAINERS]),
        ("requests.cpu", [FOR_CONTAINERS]),
        ("limits.cpu", [FOR_CONTAINERS]),
        ("nvidia.com", [STANDARD, FOR_CONTAINERS]),
        ("attachable-volumes-x", [STANDARD, FOR_CONTAINERS]),
        ("requests.example.com/gpu", [EXTENDED]),
        ("Example.com/gpu", [DOMAIN, EXTENDED]),
        ("ex_ample.com/gpu", [DOMAIN, EXTENDED]),
        ("exämple.com/gpu", [DOMAIN, EXTENDED]),
        ("example.com./gpu", [DOMAIN, EXTENDED]),
        ("example.com/a/b", [LABEL_KEY, EXTENDED]),
        ("/gpu", [EMPTY_DOMAIN, EXTENDED]),
        ("example.com/", [EMPTY_NAME, NAME, EXTENDED]),
        ("example.com/-gpu", [NAME, EXTENDED]),
        ("example.com/my gpu", [NAME, EXTENDED]),
        ("", [EMPTY_NAME, NAME, FOR_CONTAINERS]),
        ("cpu.", [NAME, FOR_CONTAINERS]),
        ("Foo.kubernetes.io/x", [DOMAIN]),
        ("example.com/" + "x" * 64, [LONG_NAME, EXTENDED]),
        ("d" * 245 + "/x", [EXTENDED]),
        ("d" * 253 + "/x", [EXTENDED]),
        ("d" * 254 + "/x", [LONG_DOMAIN, EXTENDED]),
    ],
)
def test_a_container_may_not_request_an_invalid_name(name: str, expected: list[str]) -> None:
    assert validate_limit(name) == expected


def test_a_name_in_a_message_is_escaped_as_go_escapes_it() -> None:
    (cause, *_) = list_causes(validate_pod(pod(container("a", None, {'a<b>&"c"/é': 1}))))
    assert cause.startswith(
        'spec.containers[0].resources.limits[a<b>&"c"/é]: Invalid value: "a\\u003cb\\u003e\\u0026\\"c\\"/é": prefix'
    )
