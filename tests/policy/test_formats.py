"""The texts that each format accepts, and the errors on all others."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.quantity import Quantity
from tallygate.documents.syntax_tree import truncate_text
from tallygate.policy.formats import (
    FORMAT_CHECKS,
    FormatError,
    check_quantity,
    quote_text,
    split_counted_name,
)

ACCEPTED: dict[str, tuple[str, ...]] = {
    "limit": ("8", "64Gi", "25%", "0.5%"),
    "percent": ("0%", "25%", "12.5%", "1000%"),
    "quantity": (
        "0",
        "8",
        "1500m",
        "64Gi",
        "1e3",
        "1E3",
        "3.0",
        ".5",
        "8.",
        "+1",
        "0.001",
        "9223372036854775807",
        "010",
    ),
    "policy-name": ("a", "whole-gpus", "team-vision.gpus", "8", "a.b-c.d"),
    "resource-pattern": (
        "nvidia.com/gpu",
        "nvidia.com/*",
        "*",
        "?",
        "extended",
        "opaque",
        "!extended",
        "!*",
        "cpu",
        "example.com/GPU_a.B",
        "pod.alpha.kubernetes.io/opaque-int-resource-*",
    ),
    "name-pattern": ("a", "team-*", "*", "team-?", "kube-system", "*-prod-*", "123"),
    "label-value-pattern": ("vision", "V_1.a-b", "team-*", "?", "*"),
    "end-time": ("2026-12-04", "2026-12-04T18:00:00Z", "2026-12-04T18:00Z", "2026-12-04T18:00:00-05:30", "2024-02-29"),
    "class-pattern": ("gpu.example.com", "*", "!mig-?.example.com", "gpu"),
    "service-account-pattern": ("ci/deployer", "ci/*", "*/*", "kube-system/a.b-c", "team-?/x"),
    "subject-pattern": ("alice", "alice@example.com", "system:node:*", "OIDC:Group With Spaces", "Ünïcode", "*"),
    "label-key": ("a", "example.com/team", "A_b.c-d", "x" * 63, "kubernetes.io/metadata.name"),
    "label-value": ("", "a", "yes", "A_b.c-d", "1", "x" * 63),
    "capacity-name": ("memory", "gpu.example.com/memory", "Cores_2", "_m"),
    "node-count": ("1", "10", "2147483647"),
    "allocatable-name": ("cpu", "pods", "hugepages-2Mi", "storage", "nvidia.com/gpu", "attachable-volumes-aws-ebs"),
    "weight": ("1", "7", "1000000"),
    "default-amount": ("1", "81920", "1000000"),
    "period": ("15m", "1h30m", "90s", "24h", "1h0m1s"),
    "run-time": ("15m", "24h", "168h", "720h"),
    "object-name": ("batch", "system-cluster-critical", "a.b"),
    "counted-name": (
        "pods",
        "cpu",
        "requests.cpu",
        "limits.cpu",
        "memory",
        "limits.ephemeral-storage",
        "hugepages-2Mi",
        "requests.hugepages-1Gi",
        "nvidia.com/gpu",
        "requests.nvidia.com/gpu",
        "limits.nvidia.com/gpu",
        "kubernetes.io/x",
        "limits.pod.alpha.kubernetes.io/opaque-int-resource-foo",
    ),
    "api-group": ("batch.example.com", "x-k8s.io"),
    "kind-name": ("Pod", "TFJob", "A1"),
    "plural-name": ("gangjobs", "pod-groups", "v1s"),
    "api-version": ("v1", "v12", "v1alpha1", "v2beta10"),
    "noun": ("workers", "head pods", "r-pods"),
    "field-path": ("spec", "spec.a-b._c", "spec.a[*].b", "a.*.b", 'a["b.c/d"].e', "a[*][*]"),
    "pod-count": ("0", "1", "010", "2147483647"),
}

REJECTED: dict[str, dict[str, str]] = {
    "limit": {
        "-1": "is negative; write 0 or more",
        "25 %": "is not a percentage; write a number",
        "%": "is not a percentage",
    },
    "percent": {"25": "as in 25% or 12.5%", "1001%": "is more than 1000%; write less"},
    "quantity": {
        "": "is not a quantity",
        "-1": "is negative; write 0 or more",
        "-0.001": "is negative",
        "64GB": 'write "64G", or "64Gi" for powers of 1024',
        "1KB": 'write "1k", or "1Ki" for powers of 1024',
        "5K": 'write "5k"',
        "5gi": 'write "5Gi"',
        "5 Gi": 'write "5Gi"',
        "8b": 'write "8"',
        "1.2.3GB": "is not a quantity: a number",
        "GB": "is not a quantity",
        "-5GB": "is not a quantity: a number",
        "1.5TB": 'write "1.5T", or "1.5Ti" for powers of 1024',
        "5 m ": "is not a quantity",
        "1,5": "is not a quantity",
        "1_000": "is not a quantity",
        "0x10": "is not a quantity",
        "NaN": "is not a quantity",
        "Ki": "has no digit",
        ".": "has no digit",
        "e0": "has no digit",
        "m": "has no digit",
        "٣": "is not a quantity",
        "9223372036854775808": "more than Kubernetes can count",
        "8Ei ": "is not a quantity",
        "100E": "more than Kubernetes can count",
        "1e999999999": "is not a quantity",
        "9" * 65: "is longer than 64 characters",
    },
    "policy-name": {
        "": "is not a name",
        "Whole GPUs": 'as in "whole-gpus"',
        "-a": 'as in "a"',
        "a..b": "with a letter or digit at both ends",
        "a_b": 'as in "a-b"',
        "§": "is not a name",
    },
    "resource-pattern": {
        "": "names nothing",
        "!": "names nothing",
        "!!a": "can match no name",
        "a!": "can match no name",
        "nvidia.com/[ab]": "only letters, digits",
        "nvidia.com/{a,b}": "can match no name",
        "a b": "can match no name",
        "a\n": "can match no name",
        "^nvidia.*$": "can match no name",
    },
    "name-pattern": {
        "": "can match no name",
        "Team-a": "can match no name",
        "team.a": "can match no name",
        "!team-a": "put the name under exclude instead",
        "team/a": "can match no name",
    },
    "label-value-pattern": {
        "": "can match no name",
        "!vision": "name the groups that are meant",
        "team a": "can match no name",
        "team/a": "only letters, digits",
    },
    "end-time": {
        "": "write a time with its zone, as in 2026-12-04T18:00:00Z, or a date, as in 2026-12-04",
        "2026-12-04T18:00:00": 'write "2026-12-04T18:00:00Z", or its zone, as in +01:00',
        "2026-12-04 18:00z": 'write "2026-12-04T18:00Z"',
        "2026-12-04T18": "write a time with its zone",
        "2026-02-29": "day is out of range for month; write a date of the calendar",
        "2026-13-01": "month must be in 1..12",
        "2026-12-04T24:30:00Z": "hour must be in 0..23",
        "2026-12-04T18:00:00+24:00": "its zone is more than a day away",
        "9999-12-31": "leave the end out for an override that does not end",
        "9999-12-30T00:00:00Z": "9999 is the last year of the calendar",
        "0001-01-01T00:00:00+01:00": "write a time with its zone",
        "2026-W01": "write a time with its zone",
        "20261204": "write a time with its zone",
        "2026-12-04T18:00:00.5Z": "write a time with its zone",
        "tomorrow": "write a time with its zone",
        "٢٠٢٦-12-04": "write a time with its zone",
    },
    "capacity-name": {
        "": "no capacity can be called",
        "gpu-memory": "write an identifier as in a ResourceSlice",
        "a/b/c": "no capacity can be called",
        "Example.com/memory": "no capacity can be called",
        "m" * 33: "no capacity can be called",
    },
    "period": {
        "": "is not a period; write hours, minutes and seconds, as in 15m or 1h30m",
        "15": "is not a period",
        "1.5h": "is not a period",
        "-1m": "is not a period",
        "1s1m": "is not a period",
        "1d": "is not a period",
        "0m0s": "is not a time; write a period from 1s to 24h",
        "24h1s": "is more than a day; write a period up to 24h",
        "99999h": "is more than a day",
    },
    "run-time": {
        "": "is not a period",
        "30d": "is not a period; write hours, minutes and seconds",
        "0h": "is not a time; write a period from 1s to 720h",
        "720h1s": "is more than 30 days; write a period up to 720h",
    },
    "node-count": {
        "": "write one from 1 on, as in 10",
        "0": "is not a number of nodes",
        "-1": "is not a number of nodes",
        "1.5": "is not a number of nodes",
        "1e3": "is not a number of nodes",
        "2147483648": "is not a number of nodes",
    },
    "allocatable-name": {
        "": "no pod can request",
        "gpu": 'did you mean "nvidia.com/gpu"?',
        "requests.nvidia.com/gpu": "no pod can request",
        "a/b/c": "is not a name for an extended resource",
        "nvidia.com/*": "is not a name for an extended resource",
    },
    "weight": {
        "0": "is not a weight; write a whole number from 1 to 1000000",
        "-1": "is not a weight",
        "1.5": "is not a weight",
        "1e3": "is not a weight",
        "1000001": "is not a weight",
    },
    "default-amount": {
        "0": "is not a default; write a whole number from 1 to 1000000",
        "8Gi": "is not a default",
        "1000001": "is not a default",
    },
    "class-pattern": {
        "": "can match no name",
        "!": "can match no name",
        "!!a": "can match no name",
        "Gpu.example.com": "only lowercase letters",
        "nvidia.com/gpu": "can match no name",
        "gpu.example.com.deviceclass.resource.k8s.io/devices": 'the name of the class alone: "gpu.example.com"',
        "!deviceclass.resource.kubernetes.io/gpu": 'the name of the class alone: "!gpu"',
    },
    "service-account-pattern": {
        "": "is not namespace/name",
        "deployer": "is not namespace/name",
        "a/b/c": "is not namespace/name",
        "/a": "can match no name",
        "CI/deployer": "can match no name",
        "system:serviceaccount:ci:deployer": 'namespace/name: "ci/deployer"',
    },
    "subject-pattern": {"": "is not a name", "  ": "is not a name", "a\x07b": "is not a name", "a\nb": "is not a name"},
    "label-key": {
        "": "is not a label key",
        "a b": "is not a label key",
        "-a": "is not a label key",
        "a/b/c": "is not a label key",
        "Example.com/a": "is not a label key",
        "x" * 64: "is not a label key",
        "/a": "is not a label key",
    },
    "label-value": {
        "a b": "no object can carry",
        "-a": "no object can carry",
        "x" * 64: "at most 63",
        "a\n": "carry",
    },
    "object-name": {"Batch": "no object can be called", "batch-*": "without globs", "": "no object can be called"},
    "counted-name": {
        "": "no pod can request",
        "gpu": 'did you mean "nvidia.com/gpu"?',
        "requests.gpu": 'did you mean "requests.nvidia.com/gpu"?',
        "cpus": 'did you mean "cpu"?',
        "limits.memmory": 'did you mean "limits.memory"?',
        "limits.pods": 'write "pods"',
        "requests.pods": 'write "pods"',
        "count/deployments.apps": "with a ResourceQuota",
        "secrets": "with a ResourceQuota",
        "requests.storage": "no pod can request",
        "gold.storageclass.storage.k8s.io/requests.storage": "with a ResourceQuota",
        "nvidia.com/*": "one line per name",
        "!nvidia.com/gpu": "one line per name",
        "Nvidia.com/gpu": "no pod can request",
        "limits.limits.cpu": "no pod can request",
        "example.com/": "no pod can request",
    },
    "api-group": {
        "": "as in batch.example.com",
        "apps": "as in batch.example.com",
        "batch.example.com/v1": 'write "batch.example.com"',
        "Batch.example.com": "as in batch.example.com",
    },
    "kind-name": {"": "as in Pod", "pod": "as in Pod", "Gang-Job": "as in Pod", "batch/Job": "as in Pod"},
    "plural-name": {"": "lowercase letters", "GangJobs": 'write "gangjobs"', "gangjobs.example.com": "lowercase"},
    "api-version": {
        "": "v1beta1",
        "1": "v1beta1",
        "v0": "v1beta1",
        "V1": "v1beta1",
        "a.example/v1": 'write "v1"',
        "v1/": "v1beta1",
    },
    "noun": {"": "as in workers", "Workers": "as in workers", "8 pods": "as in workers"},
    "field-path": {
        "": "at character 1,",
        ".spec": "at character 1,",
        "spec..a": "at character 5,",
        "spec.tasks[0]": "at character 11,",
        "[*].a": "at character 1,",
        "spec.a[*]b": "at character 10,",
        'spec["a': "at character 5,",
        "spec.a ": "at character 7,",
        "a" * 513: "at most 512 characters",
    },
    "pod-count": {
        "": "from 0 to 2147483647",
        "-1": "from 0",
        "1.5": "from 0",
        "2147483648": "to 2147483647",
        "9" * 40: "from 0",
        "1e3": "from 0",
    },
}


@pytest.mark.parametrize(
    ("name", "text"),
    [(name, text) for name, texts in ACCEPTED.items() for text in texts],
)
def test_a_format_accepts_a_valid_text(name: str, text: str) -> None:
    FORMAT_CHECKS[name](text)


@pytest.mark.parametrize("message", sorted({message for texts in REJECTED.values() for message in texts.values()}))
def test_an_error_names_a_text_that_would_pass(message: str) -> None:
    """Check one message with all texts that it is about."""
    for name, texts in REJECTED.items():
        for text in (text for text, expected in texts.items() if expected == message):
            with pytest.raises(FormatError) as caught:
                FORMAT_CHECKS[name](text)
            assert message in str(caught.value)
            assert len(str(caught.value)) < 600


def test_every_format_has_accepted_and_rejected_texts() -> None:
    assert set(ACCEPTED) == set(REJECTED) == set(FORMAT_CHECKS)


@given(st.sampled_from(sorted(FORMAT_CHECKS)), st.text(max_size=20))
def test_no_text_crashes_a_format(name: str, text: str) -> None:
    with suppress(FormatError):
        FORMAT_CHECKS[name](text)


@given(st.text("0123456789.+-eEmkKMGi", max_size=12))
def test_an_accepted_quantity_is_not_negative(text: str) -> None:
    try:
        check_quantity(text)
    except FormatError:
        return
    quantity = Quantity.parse(text)
    assert quantity.sign >= 0
    assert not quantity.is_beyond_int64


@given(st.integers(0, 10**6), st.sampled_from(["GB", "MB", "KB", "K", "GiB", "gi", "mib", "B", " Gi", "T"]))
def test_the_suggested_spelling_is_accepted(number: int, suffix: str) -> None:
    """Check the suggestion of the error message."""
    try:
        check_quantity(f"{number}{suffix}")
    except FormatError as error:
        proposed = str(error).partition('write "')[2].partition('"')[0]
        check_quantity(proposed)


@given(st.text(max_size=20))
def test_the_suggested_name_is_accepted(text: str) -> None:
    try:
        FORMAT_CHECKS["policy-name"](text)
    except FormatError as error:
        proposed = str(error).partition('as in "')[2].removesuffix('"')
        if proposed:
            FORMAT_CHECKS["policy-name"](proposed)


@pytest.mark.parametrize(
    ("written", "split"),
    [
        ("cpu", ("", "cpu")),
        ("requests.cpu", ("requests.", "cpu")),
        ("limits.nvidia.com/gpu", ("limits.", "nvidia.com/gpu")),
        ("limits.requests.cpu", ("limits.", "requests.cpu")),
        ("requestscpu", ("", "requestscpu")),
    ],
)
def test_a_counted_name_has_at_most_one_prefix(written: str, split: tuple[str, str]) -> None:
    assert split_counted_name(written) == split


def test_long_texts_are_truncated() -> None:
    assert truncate_text("a" * 80) == "a" * 80
    assert truncate_text("a" * 81) == "a" * 80 + "…"
    assert quote_text("a") == '"a"'
    assert quote_text("a" * 1_000).endswith('…" (1,000 characters)')
