"""Drawn caps of percentages with guarantees: `usage` and `check` against plain fractions."""

import json
import random
from fractions import Fraction
from math import ceil, floor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from click.testing import CliRunner

from tallygate.cli.app import root
from tests.cli.test_percent_caps import NO_CLASSES, node
from tests.cli.usage.clusters import GPU, Object, namespace, pod, write_snapshot
from tests.effort import examples

_TEAMS = ("team-a", "team-b", "team-c")


class _Share(NamedTuple):
    """A limit as it is written, and its amount."""

    written: Any
    amount: int


def _draw_percent(choose: random.Random, most: int) -> tuple[str, Fraction]:
    thousandths = choose.choice([0, choose.randint(1, most * 1000), choose.randint(1, most) * 1000])
    text = f"{thousandths // 1000}.{thousandths % 1000:03}".rstrip("0").rstrip(".")
    return f"{text}%", Fraction(thousandths, 100_000)


def _draw_share(choose: random.Random, capacity: int) -> _Share:
    """Return a share of a capacity, rounded, then at least one amount, then at most the other one."""
    percent, share = _draw_percent(choose, 300)
    if choose.random() < 0.3:
        return _Share(percent, floor(capacity * share))
    is_up, low, high = choose.random() < 0.5, choose.randint(0, 6), choose.randint(6, 40)
    written = {"percent": percent, "round": "up" if is_up else "down", "atLeast": low, "atMost": high}
    return _Share(written, min(max((ceil if is_up else floor)(capacity * share), low), high))


def _draw_nodes(choose: random.Random) -> tuple[list[Object], int]:
    """Return nodes, and the GPUs of those in the pool without the taint, cordoned or not."""
    nodes, capacity = list[Object](), 0
    for number in range(choose.randint(0, 5)):
        gpus, is_in_pool, taint = choose.randint(0, 17), choose.random() < 0.7, choose.choice([None, "away", "other"])
        spec: Object = {"taints": [{"key": taint, "effect": "NoExecute"}]} if taint else {}
        made = node(f"n{number}", gpus, unschedulable=choose.random() < 0.3, **spec)
        made["metadata"]["labels"] = {"pool": "gpu"} if is_in_pool else {}
        nodes.append(made)
        capacity += gpus if is_in_pool and taint != "away" else 0
    return nodes or [node("none", 0)], capacity


def _draw_guarantees(choose: random.Random, hard: int) -> tuple[list[Object], dict[str, int]]:
    """Return entries, which also name a namespace that does not exist, and the guarantees of the teams."""
    entries, amounts = list[Object](), dict[str, int]()
    for names in (["team-b", "team-without-namespace"], ["team-?"]):
        percent, share = _draw_percent(choose, 30)
        amount = floor(hard * share)
        if choose.random() < 0.5:
            amount = choose.randint(1, 3)
            percent = f"{amount}"
        if percent != "0%":
            entries.append({"namespaces": names, "amounts": {GPU: percent}})
            for team in _TEAMS if names == ["team-?"] else names[:1]:
                amounts.setdefault(team, amount)
    return entries, amounts


def _run(*arguments: str) -> Any:
    result = CliRunner().invoke(root, [*arguments, "-o", "json"])
    assert result.exit_code in {0, 1}, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("start", range(0, 200, 50), ids=lambda start: f"from {start}")
def test_usage_and_check_compute_shares_and_guarantees_as_plain_fractions_do(tmp_path: Path, start: int) -> None:
    compared, seeds = 0, range(start, start + examples(15))
    for seed in seeds:
        choose = random.Random(seed)  # noqa: S311  # reproducible
        nodes, capacity = _draw_nodes(choose)
        hard = _draw_share(choose, capacity)
        entries, guaranteed = _draw_guarantees(choose, hard.amount)
        spec = {
            "namespaces": {"include": ["team-*"]},
            "shared": True,
            "hard": {GPU: hard.written},
            "capacity": {"nodeSelector": {"matchLabels": {"pool": "gpu"}}, "excludeTaints": ["away"]},
        }
        cap = {"apiVersion": "tallygate.dev/v1alpha1", "kind": "NamespaceCap", "metadata": {"name": "gpus"}}
        (tmp_path / "cap.yaml").write_text(
            yaml.safe_dump({**cap, "spec": {**spec, "guarantee": entries} if entries else spec})
        )
        used = {team: choose.randint(0, 5) for team in _TEAMS}
        pods = [pod(f"p-{team}", {GPU: f"{amount}"}, team) for team, amount in used.items() if amount]
        snapshot = write_snapshot(tmp_path, [*map(namespace, _TEAMS), NO_CLASSES, *nodes, *pods])
        options = ["--policies", str(tmp_path / "cap.yaml"), "--snapshot", str(snapshot)]
        if CliRunner().invoke(root, ["lint", options[1]]).exit_code:
            continue  # more is guaranteed than there ever is, or nothing
        compared += 1
        for team in _TEAMS:
            unspent = sum(max(guaranteed.get(name, 0) - used[name], 0) for name in _TEAMS if name != team)
            free = max(hard.amount - sum(used.values()) - unspent, 0)
            (line,) = _run("usage", *options, "-n", team)["items"]
            assert (line["hard"], line["capacity"], line["free"]) == (hard.amount, capacity, free), (seed, line)
            requested = max(free + choose.choice([0, 1]), 1)
            manifest = tmp_path / "pod.yaml"
            container = {"name": "main", "image": "x", "resources": {"limits": {GPU: f"{requested}"}}}
            made = {"metadata": {"name": "new", "namespace": team}, "spec": {"containers": [container]}}
            manifest.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", **made}))
            found = [each["code"] for each in _run("check", *options, str(manifest))["findings"]]
            assert ("TG201" in found) == (requested > free), (seed, team, found)
    assert compared
