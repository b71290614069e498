"""The server of asks beside a gate and a real API server: an answer agrees with the create that follows it.

Tenants ask with their own tokens, as the server's ServiceAccount answers with its own rights, and create then what they
have asked about.
"""

import random
import re
from collections import Counter
from collections.abc import Container, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

import httpx
import pytest

from e2e.api import Answer, Object, api
from e2e.claims import GPU, GPUS, claim, exactly, publish_devices
from e2e.counted_quotas import wait_for_count
from e2e.extra_gates import run_ledger_gate
from e2e.gates.asks import AskServer, ask, create_ask_token, create_name, provide_asks_account
from e2e.namespaces import new_namespace
from e2e.pods import make_deployment, pod
from e2e.ports import Cluster, Site
from e2e.tenant import Tenant, tenant
from e2e.waiting import until

_WITHIN: Final = 240.0  # seconds
_AGAIN: Final = 10.0  # seconds, until what was stored before a create is known to the server of asks
_TENANTS: Final = 6
_ROUND: Final = 120
_DONGLE, _SEAT, _CARD = "example.com/dongle", "example.com/seat", "example.com/card"
_BANANA: Final = "pod.alpha.kubernetes.io/opaque-int-resource-bananas"
_POLICIES: Final = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: dongles}}
spec:
  namespaces: {{selector: {{matchLabels: {{asks: "yes"}}}}}}
  shared: true
  hard: {{{_DONGLE}: 30}}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: seats}}
spec:
  namespaces: {{selector: {{matchLabels: {{asks: "yes"}}}}}}
  hard: {{{_SEAT}: 4}}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: gpus}}
spec:
  namespaces: {{selector: {{matchLabels: {{asks: "yes"}}}}}}
  hard: {{{GPU}: 3}}
"""
_CARDS: Final = 4
_AMOUNTS: Final = (
    *[(_DONGLE, ("1", "1", "2", "3", "31"))] * 3,
    *[(_SEAT, ("1", "1", "2", "5"))] * 2,
    *[(_CARD, ("1", "2", "5"))] * 2,
    (_BANANA, ("1", "500m", "1500m")),
)
"""Resources with the amounts that a pod may request, as often as they are drawn."""
_QUOTA_CODES: Final = frozenset({"TG208", "TG213"})
_RULES, _CAPS, _CODE = "TG1", "TG2", r"\((TG\d+)[,)]"


class Setting(NamedTuple):
    """A gate, a server of asks and tenants under the same caps."""

    site: Site
    asks: AskServer
    tenants: tuple[Tenant, ...]
    clients: tuple[httpx.Client, ...]

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        return self.site.cluster


@pytest.fixture(scope="module")
def setting(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    """Run a gate with ledgers in the cluster, a server of asks, and tenants with quotas."""
    folder = tmp_path_factory.mktemp("asks")
    with ExitStack() as stack:
        own = stack.enter_context(new_namespace(site.cluster, "gate-"))
        stack.enter_context(publish_devices(site.cluster, site.node, 8))
        gate = stack.enter_context(run_ledger_gate(site, folder / "gate", {"asks.yaml": _POLICIES}, own))
        kubeconfig = stack.enter_context(provide_asks_account(site.cluster, folder))
        asks = stack.enter_context(AskServer(folder / "asks", kubeconfig, gate.policies))
        tenants = tuple(stack.enter_context(tenant(site.cluster, folder, asks="yes")) for _ in range(_TENANTS))
        clients = []
        for each in tenants:
            _create_quota(site.cluster, each.namespace)
            token = create_ask_token(site.cluster, each.namespace, "tenant", "tallygate")
            clients.append(stack.enter_context(asks.open_client(token)))
        made = Setting(site, asks, tenants, tuple(clients))
        _settle(made)
        yield made


def _create_quota(cluster: Cluster, namespace: str) -> None:
    hard = {f"requests.{_CARD}": str(_CARDS)}
    quota = {"metadata": {"name": "cards"}, "spec": {"hard": hard}}
    api(cluster.kubeconfig).create(f"/api/v1/namespaces/{namespace}/resourcequotas", quota)


def _settle(setting: Setting) -> None:
    """Delete what the tenants have created; return once caps, quotas and the server of asks have it free again.

    Raises:
        ClusterError: if it takes too long.
    """
    client = api(setting.cluster.kubeconfig)
    for each in setting.tenants:
        for path in (each.pods, f"/apis/resource.k8s.io/v1/namespaces/{each.namespace}/resourceclaims"):
            client.delete(path)
    for each in setting.tenants:
        wait_for_count(client, client.items(f"/api/v1/namespaces/{each.namespace}/resourcequotas"))
    largest = [_make_pod(setting.site, _DONGLE, "30"), _make_pod(setting.site, _SEAT, "4"), claim("all", exactly(3))]
    for each, asking in zip(setting.tenants, setting.clients, strict=True):
        for made in largest:
            until("the gate has it free", partial(_is_accepted, each, made), _WITHIN)
            until("the server of asks has it free", partial(_is_free, asking, each, made), _WITHIN)


def _is_accepted(someone: Tenant, made: Object) -> bool:
    return someone.create(made, dry=True).is_done


def _is_free(client: httpx.Client, someone: Tenant, made: Object) -> bool:
    return not _find_codes(ask(client, made, someone.namespace), {"error"})


def _make_pod(site: Site, resource: str, amount: str) -> Object:
    made = pod(site, create_name("p"))
    made["spec"]["containers"][0]["resources"] = {field: {resource: amount} for field in ("requests", "limits")}
    return made


def _draw(draw: random.Random, site: Site) -> Object:
    """Return a drawn object: a pod, a workload that makes no pods yet, or a claim."""
    resource, amounts = draw.choice(_AMOUNTS)
    made = _make_pod(site, resource, draw.choice(amounts))
    kind = draw.choice(["Pod"] * 6 + ["Deployment", "Job", "ResourceClaim"])
    if kind == "ResourceClaim":
        return claim(create_name("c"), exactly(draw.choice([1, 1, 2, 4]), GPUS))
    if kind == "Deployment":
        return make_deployment(create_name("d"), draw.choice([1, 2, 6]), made["spec"], paused=True)
    if kind == "Job":
        template = {"spec": made["spec"] | {"restartPolicy": "Never"}}
        spec = {"suspend": True, "parallelism": draw.choice([1, 3]), "template": template}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": create_name("j")}, "spec": spec}
    return made


def _find_codes(answer: Object, levels: Container[str]) -> set[str]:
    """Return the codes of the findings of an answer about one object at these levels."""
    (item,) = answer["objects"]
    return {each["code"] for each in item["findings"] if each["level"] in levels}


class Outcome(NamedTuple):
    """What becomes of an object: the codes of its refusal, `quota` for that by a ResourceQuota, and of the forecast.

    The forecast is about the pods that a workload makes later.
    """

    refusal: frozenset[str]
    forecast: frozenset[str] = frozenset()


def _expect(answer: Object, made: Object) -> Outcome:
    """Return what an answer says becomes of an object."""
    if made["kind"] in {"Pod", "ResourceClaim"}:
        codes = _find_codes(answer, {"error"})
        return Outcome(frozenset("quota" if code in _QUOTA_CODES else code for code in codes))
    rules = {code for code in _find_codes(answer, {"error"}) if code.startswith(_RULES)}
    forecast = _find_codes(answer, {"error", "warning"})
    return Outcome(frozenset(rules), frozenset(code for code in forecast if code.startswith(_CAPS) and not rules))


def _read_outcome(created: Answer, made: Object) -> Outcome:
    """Return what became of an object by the API server's answer."""
    if "exceeded quota" in created.rejection:
        return Outcome(frozenset({"quota"}))
    refusal = re.findall(_CODE, created.rejection)
    assert refusal or created.is_done, created.body
    is_workload = made["kind"] not in {"Pod", "ResourceClaim"}
    warned = re.findall(_CODE, "\n".join(created.warnings)) if is_workload and not refusal else []
    return Outcome(frozenset(refusal), frozenset(code for code in warned if code.startswith(_CAPS)))


@dataclass
class Comparison:
    """The numbers of answers that agree with the create, by result, and of those that knew too little yet."""

    agreed: Counter[str] = field(default_factory=Counter)
    older: int = 0

    def __str__(self) -> str:
        """Return them as one line."""
        return f"{self.agreed.total()} agree, {self.older} knew less than was stored: {dict(self.agreed)}"


def _compare(setting: Setting, draw: random.Random, comparison: Comparison) -> None:
    """Ask about a drawn object, create it, and compare.

    Raises:
        AssertionError: if the answer differs, also once all is known that was stored before the create.
    """
    index = draw.randrange(_TENANTS)
    someone, client, made = setting.tenants[index], setting.clients[index], _draw(draw, setting.site)
    expected = _expect(ask(client, made, someone.namespace), made)
    created = someone.create(made)
    outcome = _read_outcome(created, made)
    if expected == outcome:
        comparison.agreed[f"{made['kind']}: {', '.join(sorted(outcome.refusal | outcome.forecast)) or 'accepted'}"] += 1
        return
    is_used = created.is_done and made["kind"] in {"Pod", "ResourceClaim"}  # by itself, so it cannot be asked again
    assert not is_used, f"{made} is stored, and the answer was {expected}"
    until(
        f"the answer is {outcome} and not {expected}: {made} {created.messages}",
        lambda: _expect(ask(client, made, someone.namespace), made) == outcome,
        _AGAIN,
    )
    comparison.older += 1


def test_an_answer_agrees_with_the_create_that_follows(setting: Setting, pytestconfig: pytest.Config) -> None:
    cases, draw, comparison = pytestconfig.getoption("--asks"), random.Random(31), Comparison()  # noqa: S311  # not secret
    for number in range(cases):
        if number % _ROUND == 0 and number:
            _settle(setting)
        _compare(setting, draw, comparison)
    print(comparison)  # noqa: T201  # the figures of a long run
    assert comparison.agreed.total() + comparison.older == cases
    assert comparison.older <= cases // 10
    assert {"Pod: TG201", "Pod: quota", "Pod: accepted", "ResourceClaim: accepted"} <= set(comparison.agreed)
