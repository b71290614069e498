"""Fingerprints of pod specs, and a cache of limited size."""

import msgspec
import pytest

from tallygate.accounting.result_cache import Fingerprint, FingerprintCache, compute_fingerprint, share_text
from tallygate.objects.core import PodSpec

_BOTH = '{"requests": {"nvidia.com/gpu": "1", "cpu": "2"}, "limits": {"nvidia.com/gpu": "1"}}'
_PLAIN = f'{{"containers": [{{"name": "main", "resources": {_BOTH}}}]}}'

# id, another spec.
OTHERS = (
    ("another quantity", _PLAIN.replace('"cpu": "2"', '"cpu": "3"')),
    ("a number for a text", _PLAIN.replace('"cpu": "2"', '"cpu": 2')),
    ("another limit", _PLAIN.replace('"limits": {"nvidia.com/gpu": "1"}', '"limits": {"nvidia.com/gpu": "2"}')),
    ("another name", _PLAIN.replace('"cpu": "2"', '"memory": "2"')),
    ("another container's name", _PLAIN.replace("main", "side")),
    ("a limit that was a request", _PLAIN.replace('"cpu": "2"}, "limits": {', '"limits.cpu": "2"}, "limits": {')),
    ("requests for limits", _PLAIN.replace('"requests"', '"x"').replace('"limits"', '"requests"')),
    ("no limits", _PLAIN.replace('"limits"', '"x"')),
    ("no requests", '{"containers": [{"name": "main"}]}'),
    ("an init container", _PLAIN.replace('"containers"', '"initContainers"')),
    ("a second container", _PLAIN.replace('"containers": [', '"containers": [{"name": "other"}, ')),
    ("a sidecar", _PLAIN.replace('"name": "main"', '"name": "main", "restartPolicy": "Always"')),
    ("no container", "{}"),
)


def fingerprint(spec: str) -> Fingerprint | None:
    """Return the fingerprint of a spec."""
    return compute_fingerprint(msgspec.json.decode(spec, type=PodSpec))


def test_pods_with_equal_resources_have_equal_fingerprints() -> None:
    assert fingerprint(_PLAIN) is not None
    assert fingerprint(_PLAIN) == fingerprint(_PLAIN.replace("{", '{"nodeName": "a", ', 1))


@pytest.mark.parametrize("spec", [row[1] for row in OTHERS], ids=[row[0] for row in OTHERS])
def test_pods_with_other_resources_have_other_fingerprints(spec: str) -> None:
    assert fingerprint(spec) is not None
    assert fingerprint(spec) != fingerprint(_PLAIN)


@pytest.mark.parametrize("resources", ["", ', "resources": {}', f', "resources": {_BOTH}'])
def test_a_sidecar_and_an_init_container_have_different_fingerprints(resources: str) -> None:
    ordinary = f'{{"initContainers": [{{"name": "first"{resources}}}]}}'
    assert fingerprint(ordinary) != fingerprint(ordinary.replace('"first"', '"first", "restartPolicy": "Always"'))


def test_a_request_and_a_limit_have_different_fingerprints() -> None:
    requests = '{"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}'
    assert fingerprint(requests) != fingerprint(requests.replace("requests", "limits"))


@pytest.mark.parametrize(
    "more", ['"ephemeralContainers": [{"name": "debug"}]', '"overhead": {"cpu": "1"}', '"resources": {}']
)
def test_a_pod_with_rare_fields_has_no_fingerprint(more: str) -> None:
    assert fingerprint(_PLAIN.replace("{", f"{{{more}, ", 1)) is None


def test_the_cache_is_limited_in_number_and_length() -> None:
    found: FingerprintCache[int] = FingerprintCache()
    for number in range(2000):
        found.put((("main", f"{number}"),), number)
    known = [number for number in range(2000) if found.get((("main", f"{number}"),)) is not None]
    assert 1999 in known
    assert len(known) <= 512
    found.put((("main", b"1" * 5000),), 1)
    assert found.get((("main", b"1" * 5000),)) is None


def test_equal_texts_are_shared_unless_they_are_long() -> None:
    for length, is_shared in ((320, True), (321, False)):
        one, other = ("".join(["x"] * length) for _ in range(2))
        assert share_text(one) == one
        assert (share_text(one) is share_text(other)) is is_shared
