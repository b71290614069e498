"""`tallygate serve-ask` as a process: from its start to its end, over the watches of a small cluster."""

from collections.abc import Sequence
from pathlib import Path

from tests.kube.kubeconfig import write_kubeconfig
from tests.server.process import ServerProcess, eventually
from tests.server.small_cluster import Object
from tests.server.test_ask_app import ANN
from tests.server.test_asked_cluster import ASKED, run_objects
from tests.warm import Program

ROOT = Path(__file__).parents[2]


class AskServer(ServerProcess):
    """A running `tallygate serve-ask`."""

    def _start(self, module: str, arguments: Sequence[str]) -> Program:
        with self._log.open("wb") as log:
            return self._run(module, ["serve-ask", *arguments], log.fileno())


def review(spec: Object) -> Object:
    """Return that the token is Ann's, who may create objects in team-a, and list nothing."""
    if "token" in spec:
        return {"authenticated": spec["token"] == ANN, "user": {"username": ANN}}
    access = spec["resourceAttributes"]
    return {"allowed": access["verb"] == "create" and access["namespace"] == "team-a"}


def test_the_process_answers_who_may_ask_and_ends_in_order(tmp_path: Path) -> None:
    with run_objects() as cluster:
        cluster.review = review
        kubeconfig = write_kubeconfig(tmp_path, cluster.server)
        with AskServer(tmp_path, "tallygate.cli", cluster="kubeconfig", kubeconfig=kubeconfig) as asks:
            with asks.client(headers={"Authorization": f"Bearer {ANN}"}) as client:
                assert eventually(lambda: client.get("/readyz").status_code == 200)
                response = client.post("/v1/ask", content=ASKED)
                other = client.post("/v1/ask?namespace=team-b", content=ASKED.replace(b", namespace: team-a", b""))
                refused = client.post("/v1/ask", content=ASKED, headers={"Authorization": "Bearer bob"})
                usage = client.get("/v1/usage?namespace=team-a")
                unknown = client.post("/v1/admit/validate", content=b"{}")
            exit_code = asks.stop()
    assert (response.status_code, other.status_code, refused.status_code, unknown.status_code) == (200, 403, 401, 404)
    content = response.json()
    verdicts = [each["verdict"] for item in content["objects"] for each in item["predictions"]]
    assert verdicts[-1] == "fits now"
    assert "busy" not in response.text
    numbers = usage.json()
    assert (usage.status_code, numbers["items"], numbers["holders"]) == (200, [], None)
    assert refused.headers["WWW-Authenticate"].startswith("Bearer")
    assert not cluster.stored
    assert not cluster.patches
    assert exit_code == 0
