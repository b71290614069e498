"""Random and adversarial inputs for the oracles, one JSON line each.

`python -m tests.oracle.questions texts 200000 --seed 7 | go run ./quantity`, likewise the other kinds.
"""

import argparse
import json
import random
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from tests.oracle.created_pods import draw_created_pod, draw_pod_of_versions
from tests.oracle.expressions import draw_question

_SUFFIXES = ("", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_NO_SUFFIXES = (
    "K",
    "ki",
    "i",
    "KB",
    "GiB",
    "g",
    "ni",
    "Eie",
    "e",
    "E+",
    "k3",
    "+",
    "-",
    "Ee3",
    "EE",
    "Ei3",
    "  ",
    "n9",
    "e1.5",
)
_EDGES = (
    "9223372036854775807", "9223372036854775808", "999999999999999999", "1000000000000000000", "18446744073709551616",
    "1024", "1048576", "8192", "4294967296",
)  # fmt: skip
_BLANKS = ("", " ", "\t", "\n", "\v", "\x85", "\xa0", "\u2003", "\x1c", "\ufeff", "\u200b", "\u3000", "\\n", "\\u0033")
_TOKENS = ("null", '"null"', "true", "{}", "[]", '""', '"', '" "', "", "nul", '"3', '3"', '""3""')
_NAMES = (
    "cpu", "memory", "storage", "pods", "requests.cpu", "limits.memory", "hugepages-2Mi", "requests.hugepages-1Gi",
    "attachable-volumes-x", "nvidia.com/gpu", "requests.nvidia.com/gpu", "kubernetes.io/foo", "foo.kubernetes.io/bar",
    "mykubernetes.io/bar", "pod.alpha.kubernetes.io/opaque-int-resource-bananas", "example.com/kubernetes.io", "a/b/c",
    "count/pods", "services.nodeports", "gpu", "", "/", "x/", "/x",
)  # fmt: skip
_IN_TEXTS = "0123456789.+-eEinumkKMGTP \t_x,\u0663"
_IN_NAMES = "abzAZ019-_./ !\xe4\u0663\n"
_LARGEST_EXPONENT = 1050
_EXPONENT = re.compile(r"[eE][+-]?([0-9]+)\W*$")

Ask = Callable[[random.Random], Mapping[str, Any]]


def _digits(rng: random.Random, max_length: int) -> str:
    """Return digits: nines, a power of ten, an edge case, or random digits."""
    length = rng.randint(0, max_length)
    return rng.choice(
        ["9" * length, "1" + "0" * length, rng.choice(_EDGES), "".join(rng.choices("0123456789", k=length))]
    ) + rng.choice(["", "", "", "0", "000"])


def _number(rng: random.Random) -> str:
    """Return a sign, zeros, digits, and in some cases a fraction."""
    whole = rng.choice(["", "", "+", "-"]) + rng.choice(["", "", "0", "000"]) + _digits(rng, 22)
    return whole + rng.choice(["", "", ".", f".{rng.choice(['', '0' * 9])}{_digits(rng, 14)}"])


def _suffix(rng: random.Random) -> str:
    """Return a suffix, an exponent, or neither."""
    power = rng.randint(0, rng.choice([9, 25, _LARGEST_EXPONENT]))
    exponent = f"{rng.choice('eE')}{rng.choice(['', '+', '-'])}{rng.choice(['', '00'])}{power}"
    return rng.choice([rng.choice(_SUFFIXES), rng.choice(_SUFFIXES), exponent, rng.choice(_NO_SUFFIXES)])


def _mutate(rng: random.Random, text: str, alphabet: str) -> str:
    """Return the text with up to three characters inserted, removed or changed."""
    characters = list(text)
    for _ in range(rng.randint(0, 3)):
        position = rng.randint(0, len(characters))
        characters[position : position + rng.randint(0, 1)] = rng.choice(["", rng.choice(alphabet)])
    return "".join(characters)


def _text(rng: random.Random) -> str:
    """Return a text that Go parses in a short time."""
    text = _number(rng) + _suffix(rng)
    text = text if rng.randint(0, 3) else _mutate(rng, text, _IN_TEXTS)
    exponent = _EXPONENT.search(text)
    return "3" if exponent and int(exponent[1]) > _LARGEST_EXPONENT else text


def _texts(rng: random.Random) -> dict[str, str]:
    return {"text": _text(rng)}


def _tokens(rng: random.Random) -> dict[str, str]:
    blanks = rng.choice(_BLANKS), rng.choice(_BLANKS)
    text = _text(rng)
    return {"token": rng.choice([text, f'"{text}"', f'"{blanks[0]}{text}{blanks[1]}"', rng.choice(_TOKENS)])}


def _sums(rng: random.Random) -> dict[str, str]:
    left, right = (
        f"{rng.choice(['', '-'])}{rng.randint(0, 9)}{_digits(rng, rng.choice([2, 6, 18]))}" for _ in range(2)
    )
    return {"left": left + rng.choice(_SUFFIXES), "right": right + rng.choice(_SUFFIXES)}


def _names(rng: random.Random) -> dict[str, str]:
    domain = "".join(rng.choices("ab0-.", weights=[40, 40, 10, 3, 3], k=rng.choice([0, 1, 3, 63, 244, 245, 253, 254])))
    generated = (
        f"{domain}/{''.join(rng.choices('aZ0-_.', weights=[40, 40, 10, 2, 2, 2], k=rng.choice([0, 1, 5, 62, 63, 64])))}"
    )
    return {"name": _mutate(rng, rng.choice([rng.choice(_NAMES), generated]), _IN_NAMES)}


_AMOUNTS = {
    "cpu": ("250m", "1", "1500m", "2"),
    "memory": ("64Mi", "1Gi", "1500M"),
    "hugepages-2Mi": ("2Mi", "4Mi"),
    "nvidia.com/gpu": ("1", "2"),
}


def _amounts(rng: random.Random, names: tuple[str, ...] = tuple(_AMOUNTS)) -> dict[str, str]:
    return {name: rng.choice(_AMOUNTS[name]) for name in names if rng.random() < 0.6}


def _container_status(rng: random.Random, name: str) -> dict[str, Any]:
    """Return what a kubelet reports of a container, in parts."""
    status: dict[str, Any] = {"name": name}
    if rng.random() < 0.7:
        status["resources"] = {"requests": _amounts(rng)} if rng.random() < 0.8 else {}
    if rng.random() < 0.7:
        status["allocatedResources"] = _amounts(rng)
    return status


def _resizes(rng: random.Random) -> dict[str, Any]:
    """Return a pod that is being resized, with sidecars, init steps and requests at pod level in some cases."""
    names = [f"c{number}" for number in range(rng.randint(1, 3))]
    init_names = [f"i{number}" for number in range(rng.choice([0, 0, 1, 2]))]
    spec: dict[str, Any] = {
        "containers": [{"name": name, "resources": {"requests": _amounts(rng)}} for name in names],
        "initContainers": [
            {"name": name, "resources": {"requests": _amounts(rng)}}
            | ({"restartPolicy": "Always"} if rng.random() < 0.5 else {})
            for name in init_names
        ],
    }
    if rng.random() < 0.4:
        spec["resources"] = {"requests": _amounts(rng, ("cpu", "memory"))}
    if rng.random() < 0.2:
        spec["overhead"] = {"cpu": "100m"}
    status: dict[str, Any] = {
        "containerStatuses": [_container_status(rng, name) for name in names if rng.random() < 0.8],
        "initContainerStatuses": [_container_status(rng, name) for name in init_names if rng.random() < 0.8],
    }
    if rng.random() < 0.4:
        status["resources"] = {"requests": _amounts(rng)} if rng.random() < 0.8 else {}
    if rng.random() < 0.4:
        status["allocatedResources"] = _amounts(rng)
    if rng.random() < 0.5:
        reason = rng.choice(["Infeasible", "Deferred"])
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    return {"pod": {"metadata": {"name": "p"}, "spec": spec, "status": status}}


_CLASSES = ("gpu.example.com", "mig.example.com", "nic.example.com")
_EXTENDED = ("", "", "nvidia.com/gpu", "example.com/nic")


def _alternative(rng: random.Random) -> dict[str, Any]:
    """Return what a request or an alternative asks for: a number of devices of a class, or all."""
    fields: dict[str, Any] = {"deviceClassName": rng.choice(_CLASSES)}
    if rng.random() < 0.2:
        return {**fields, "allocationMode": "All"}
    if rng.random() < 0.3:
        return fields
    return {**fields, "count": rng.choice([1, 2, 3, 8, 31, 32, 33, 40])}


def _claims(rng: random.Random) -> dict[str, Any]:
    """Return a claim, and the extended resources of the classes."""
    requests: list[dict[str, Any]] = []
    for index in range(rng.randint(0, 4)):
        name = f"r{index}"
        if rng.random() < 0.4:
            alternatives = [{"name": f"a{number}", **_alternative(rng)} for number in range(rng.randint(1, 4))]
            requests.append({"name": name, "firstAvailable": alternatives})
        else:
            admin = {"adminAccess": True} if rng.random() < 0.2 else {}
            requests.append({"name": name, "exactly": {**_alternative(rng), **admin}})
    claim = {"metadata": {"name": "c", "namespace": "ns"}, "spec": {"devices": {"requests": requests}}}
    return {"claim": claim, "classes": {name: rng.choice(_EXTENDED) for name in _CLASSES}}


_KINDS: dict[str, Ask] = {
    "claims": _claims,
    "created": draw_created_pod,
    "created-by-version": draw_pod_of_versions,
    "texts": _texts,
    "tokens": _tokens,
    "sums": _sums,
    "names": _names,
    "resizes": _resizes,
    "devices": draw_question,
}


def main() -> None:
    """Write the questions."""
    parser = argparse.ArgumentParser(description="Write questions for the oracles.")
    parser.add_argument("kind", choices=sorted(_KINDS))
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)  # noqa: S311 - repeatable, not secret
    for _ in range(arguments.count):
        sys.stdout.write(json.dumps(_KINDS[arguments.kind](rng)) + "\n")


if __name__ == "__main__":
    main()
