"""Two ResourceQuotas in one namespace, one of which is written all the time, and a cap (kubernetes#141904).

Up to 1.37 an API server stores pods that a quota has denied: after a conflict on the other quota it decides again about
all waiting requests, by that quota alone. A cap in place of the quota stores what fits.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from threading import Event

from e2e.api import Api, api
from e2e.load import CLIENTS, STORED
from e2e.pods import DONGLE, pod
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Cluster, Gate, Site
from e2e.waiting import until
from tallygate.accounting.kubernetes_versions.version import parse_minor

_OTHER = "example.com/seat"
_HARD = 2
_PODS = 400  # half of them request a dongle
_WRITERS = 2
_FIXED_SINCE = 38  # read in 1.38.0-beta.0
_WITHIN = 240.0  # seconds
_CAP = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: dongles}}
spec:
  namespaces: {{include: ["case-*"]}}
  hard: {{example.com/dongle: {_HARD}}}
"""


def _create_quota(client: Api, namespace: str, name: str, hard: dict[str, str]) -> None:
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    client.create(path, {"metadata": {"name": name}, "spec": {"hard": hard}})
    until(f"quota {name} is computed", lambda: "hard" in client.get(f"{path}/{name}").get("status", {}), _WITHIN)


@contextmanager
def _write_all_the_time(cluster: Cluster, namespace: str, name: str) -> Iterator[None]:
    """Change labels of a quota again and again; its controller and other API servers write its status as well."""
    ended = Event()

    def write(writer: int) -> None:
        path = f"/api/v1/namespaces/{namespace}/resourcequotas/{name}"
        with Api(cluster.kubeconfig) as client:
            number = 0
            while not ended.is_set():
                number += 1
                client.patch(path, {"metadata": {"labels": {f"writer-{writer}": str(number)}}})

    with ThreadPoolExecutor(_WRITERS) as threads:
        writers = [threads.submit(write, writer) for writer in range(_WRITERS)]
        try:
            yield
        finally:
            ended.set()
    for each in writers:
        each.result()


def _count_stored(site: Site, namespace: str) -> int:
    """Create pods with a dongle and pods with a seat at once; return how many with a dongle are stored."""
    path = f"/api/v1/namespaces/{namespace}/pods"

    def create(client_number: int) -> int:
        stored, asks_dongle = 0, client_number % 2 == 0
        with Api(site.cluster.kubeconfig) as client:
            for number in range(_PODS // CLIENTS):
                sent = pod(site, f"pod-{client_number}-{number}")
                if not asks_dongle:
                    amounts = {_OTHER: "1"}
                    sent["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
                status = client.ask("POST", path, sent).status
                assert status in {STORED, HTTPStatus.FORBIDDEN, HTTPStatus.CONFLICT}, status
                stored += asks_dongle and status == STORED
        return stored

    with ThreadPoolExecutor(CLIENTS) as threads:
        return sum(threads.map(create, range(CLIENTS)))


def test_a_quota_beside_one_that_conflicts_stores_what_it_has_denied(site: Site, namespace: str) -> None:
    """Store more than the quota allows, in versions without the correction."""
    client = api(site.cluster.kubeconfig)
    _create_quota(client, namespace, "dongles", {f"requests.{DONGLE}": str(_HARD)})
    _create_quota(client, namespace, "seats", {f"requests.{_OTHER}": str(_PODS)})
    with _write_all_the_time(site.cluster, namespace, "seats"):
        stored = _count_stored(site, namespace)
    is_fixed = (parse_minor(client.get("/version")["gitVersion"]) or 0) >= _FIXED_SINCE
    assert (stored > _HARD) is not is_fixed, stored


def test_a_cap_beside_a_quota_that_conflicts_stores_what_fits(site: Site, gate: Gate, namespace: str) -> None:
    _create_quota(api(site.cluster.kubeconfig), namespace, "seats", {f"requests.{_OTHER}": str(_PODS)})
    gate.write_policies(SHIPPED_FILES | {"dongles.yaml": _CAP})
    try:
        with _write_all_the_time(site.cluster, namespace, "seats"):
            stored = _count_stored(site, namespace)
    finally:
        gate.write_policies(SHIPPED_FILES)
    assert stored == _HARD
