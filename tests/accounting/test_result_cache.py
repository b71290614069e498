"""Likeness: pods that say the same are told so, and no others; what is remembered stays small."""

import msgspec
import pytest

from webhook.accounting.result_cache import Fingerprint, FingerprintCache, compute_fingerprint
from webhook.objects.core import PodSpec

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
    ("nothing asked for", '{"containers": [{"name": "main"}]}'),
    ("an init container", _PLAIN.replace('"containers"', '"initContainers"')),
    ("a second container", _PLAIN.replace('"containers": [', '"containers": [{"name": "other"}, ')),
    ("a sidecar", _PLAIN.replace('"name": "main"', '"name": "main", "restartPolicy": "Always"')),
    ("no container", "{}"),
)


def of(spec: str) -> Fingerprint | None:
    """The likeness of a spec."""
    return compute_fingerprint(msgspec.json.decode(spec, type=PodSpec))


def test_pods_that_say_the_same_are_alike_whatever_else_they_say() -> None:
    assert of(_PLAIN) is not None
    assert of(_PLAIN) == of(_PLAIN.replace("{", '{"nodeName": "a", ', 1))


@pytest.mark.parametrize("spec", [row[1] for row in OTHERS], ids=[row[0] for row in OTHERS])
def test_who_says_something_else_is_not_alike(spec: str) -> None:
    assert of(spec) is not None
    assert of(spec) != of(_PLAIN)


@pytest.mark.parametrize("resources", ["", ', "resources": {}', f', "resources": {_BOTH}'])
def test_a_sidecar_is_no_ordinary_init_container(resources: str) -> None:
    ordinary = f'{{"initContainers": [{{"name": "first"{resources}}}]}}'
    assert of(ordinary) != of(ordinary.replace('"first"', '"first", "restartPolicy": "Always"'))


def test_a_request_is_no_limit() -> None:
    asked = '{"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}'
    assert of(asked) != of(asked.replace("requests", "limits"))


@pytest.mark.parametrize(
    "more", ['"ephemeralContainers": [{"name": "debug"}]', '"overhead": {"cpu": "1"}', '"resources": {}']
)
def test_what_few_pods_have_is_like_nothing(more: str) -> None:
    assert of(_PLAIN.replace("{", f"{{{more}, ", 1)) is None


def test_what_is_remembered_is_neither_long_nor_much() -> None:
    found: FingerprintCache[int] = FingerprintCache()
    for number in range(2000):
        found.put((("main", f"{number}"),), number)
    known = [number for number in range(2000) if found.get((("main", f"{number}"),)) is not None]
    assert 1999 in known
    assert len(known) <= 512
    found.put((("main", b"1" * 5000),), 1)
    assert found.get((("main", b"1" * 5000),)) is None
