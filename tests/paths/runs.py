"""The paths, each run in a process of its own."""

import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import Any

from click import Context

from tallygate.accounting.amounts import Amounts
from tallygate.cli.app import root
from tallygate.cli.framework import EXIT_FINDINGS
from tallygate.gate.asked_policies import AskedPolicies
from tallygate.gate.gate import Gate
from tallygate.policy.load import SHIPPED_POLICIES
from tallygate.review.view import ClusterView
from tallygate.server.controllers.informers import load_client_config
from tallygate.server.policy_reloader import PolicyReloader
from tallygate.server.serve_with_cluster import _create_ledgers, create_cluster_gate
from tallygate.server.settings.sources import load_settings
from tallygate.server.telemetry.ledger_metrics import CapMetrics
from tallygate.server.telemetry.metrics import Telemetry, start_telemetry
from tallygate.server.web.flask_app import create_app
from tallygate.server.web.request_log import RequestLog
from tallygate.state.in_memory import MemoryLedgers, UnknownNamespaces
from tallygate.state.kubernetes.cap_ledger import KIND
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey, TransitionResult
from tests.cli.usage.clusters import write_snapshot
from tests.kube.kubeconfig import write_kubeconfig
from tests.paths.recorder import record_modules
from tests.server.small_cluster import SmallCluster, run_small_cluster

Object = dict[str, Any]

_GPU = "nvidia.com/gpu"
_WAIT_SECONDS = 30.0
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/tallygate-system/leases"
_POLICY = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus, annotations: {tallygate.dev/why: eight GPUs were bought for this team}}
spec:
  namespaces: {include: [team-a]}
  hard: {nvidia.com/gpu: %d}
"""


def _pod(name: str, gpus: int, **spec: object) -> Object:
    resources = {"requests": {_GPU: f"{gpus}"}, "limits": {_GPU: f"{gpus}"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team-a", "uid": f"uid-{name}", "resourceVersion": "7"},
        "spec": {"containers": [{"name": "main", "image": "train", "resources": resources}], **spec},
        "status": {"phase": "Running" if spec else "Pending"},
    }


def _objects() -> dict[str, list[Object]]:
    node: Object = {"metadata": {"name": "n1", "uid": "uid-n1", "resourceVersion": "5"}}
    node |= {"status": {"allocatable": {_GPU: "8", "cpu": "64", "memory": "256Gi", "pods": "110"}}}
    namespace: Object = {"metadata": {"name": "team-a", "uid": "uid-team-a", "resourceVersion": "3"}}
    return {"pods": [_pod("uses", 6, nodeName="n1"), _pod("waits", 3)], "namespaces": [namespace], "nodes": [node]}


def _review() -> bytes:
    request = {
        "uid": "review-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": "new",
        "namespace": "team-a",
        "operation": "CREATE",
        "userInfo": {"username": "someone"},
        "object": _pod("new", 1),
        "dryRun": False,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(review).encode()


@contextmanager
def _run_environment() -> Iterator[tuple[SmallCluster, Path, Telemetry]]:
    """Yield a cluster, a folder with its kubeconfig and a policy file, and a log."""
    with (
        tempfile.TemporaryDirectory() as folder,
        run_small_cluster(**_objects()) as cluster,
        start_telemetry("error") as telemetry,
    ):
        cluster.objects[_LEASES] = []
        write_kubeconfig(Path(folder), cluster.server, token="t")  # noqa: S106  # a made-up token
        (Path(folder) / "policy.yaml").write_text(_POLICY % 16, "utf-8")
        yield cluster, Path(folder), telemetry


def run_create() -> list[str]:
    """Admit one pod over WSGI, under a cap whose ledger is stored in the cluster, and write the log line."""
    with _run_environment() as (cluster, folder, telemetry):
        flags: Object = {
            "policies": [str(folder / "policy.yaml")],
            "cluster": "kubeconfig",
            "kubeconfig": str(folder / "kubeconfig"),
            "ledgers": "kubernetes",
            "in_flight_bound": "100ms",
        }
        settings = load_settings(flags, {})
        policies = PolicyReloader(settings.policies, telemetry)
        caps = CapMetrics(telemetry.metrics.registry, telemetry.log)
        asked = AskedPolicies(policies.store.get_policies, time.monotonic)
        asked.update(None)
        parts = create_cluster_gate(settings, policies, asked, telemetry, caps)
        app = create_app(parts.admit, RequestLog(telemetry.log, telemetry.metrics))
        has_active_ledger = Event()

        def note_ledger(item: Object) -> None:
            if item["kind"] == KIND and not item["status"].get("initializing"):
                has_active_ledger.set()

        cluster.on_store = note_ledger
        with parts.run_background():
            if not has_active_ledger.wait(_WAIT_SECONDS):
                raise TimeoutError("the gate did not create its ledger in time")
            body = _review()
            environ = {
                "REQUEST_METHOD": "POST",
                "PATH_INFO": "/v1/admit/validate",
                "QUERY_STRING": "timeout=10s",
                "CONTENT_LENGTH": f"{len(body)}",
                "CONTENT_TYPE": "application/json",
                "wsgi.input": io.BytesIO(body),
            }
            with record_modules() as modules:
                answer = app.wsgi_app(environ, lambda *_: lambda _: None)
                sent = b"".join(answer)
                answer.close()  # type: ignore[attr-defined]  # as a server does after the last byte (PEP 3333)
        if not json.loads(sent)["response"]["allowed"]:
            raise RuntimeError(f"the pod was not admitted: {sent.decode()}")
    return modules


def run_predict() -> list[str]:
    """Predict a pending pod of the cluster, by the command line."""
    with _run_environment() as (_, folder, _voice):
        import_module("tallygate.cli.predict.command")
        arguments = ["predict", "pod/waits", "--namespace", "team-a", "--kubeconfig", str(folder / "kubeconfig")]
        with redirect_stdout(io.StringIO()) as printed, record_modules() as modules:
            code = root.main(arguments, standalone_mode=False)
        if code != EXIT_FINDINGS or "waits" not in printed.getvalue():
            raise RuntimeError(f"unexpected prediction ({code}): {printed.getvalue()}")
    return modules


def _run_on_snapshot(command: str, *arguments: str) -> Callable[[], list[str]]:
    """Return the run of a command on a snapshot of the cluster; `{folder}` in an argument is where the files are."""

    def run() -> list[str]:
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()) as printed:
            kinds = {"namespaces": "Namespace", "nodes": "Node", "pods": "Pod"}
            stored = [
                {"apiVersion": "v1", "kind": kinds[plural], **item}
                for plural, items in _objects().items()
                for item in items
            ]
            snapshot = write_snapshot(Path(folder), stored)
            (Path(folder) / "policy.yaml").write_text(_POLICY % 16, "utf-8")
            (Path(folder) / "new.json").write_text(json.dumps(_pod("new", 1)), "utf-8")
            given = [each.format(folder=folder) for each in arguments]
            root.get_command(Context(root), command)
            with record_modules() as modules:
                code = root.main([command, "--snapshot", str(snapshot), *given], standalone_mode=False)
        if code not in {0, None, EXIT_FINDINGS}:
            raise RuntimeError(f"{command} ended with {code}: {printed.getvalue()}")
        return modules

    return run


def run_policy_edit() -> list[str]:
    """Read an edited policy file, make it the active policy, and index it for reviews."""
    with _run_environment() as (_, folder, telemetry):
        path = folder / "policy.yaml"
        path.write_text(SHIPPED_POLICIES.joinpath("default.yaml").read_text("utf-8") + "---\n" + _POLICY % 16, "utf-8")
        policies = PolicyReloader([path], telemetry)
        gate = Gate(
            policies=policies.store.get_policies,
            view=ClusterView(namespaces=UnknownNamespaces()),
            ledgers=MemoryLedgers(),
            monotonic=time.monotonic,
            nonce=lambda: "nonce",
            unix_time=time.time,
        )
        path.write_text(path.read_text("utf-8").replace("gpu: 16", "gpu: 32"), "utf-8")
        with record_modules() as modules:
            status = policies.store.reload()
            gate.get_active_caps()
        if status.generation != 2:  # the first is the one at the start
            raise RuntimeError(f"the edit was not loaded: {status}")
    return modules


class _Raise:
    """A transition that stores a ledger with a new limit."""

    def __call__(self, _: Ledger | None) -> TransitionResult[None]:
        """Return a ledger with a limit of 4."""
        return TransitionResult(None, Ledger(Amounts({_GPU: 4})))

    def is_stored_in(self, ledger: Ledger) -> bool:
        """Return whether the limit is stored."""
        return ledger.hard.get(_GPU) == 4  # what it writes


def run_ledger_write() -> list[str]:
    """Write one ledger to the cluster by compare-and-swap."""
    with _run_environment() as (cluster, folder, telemetry):
        flags: Object = {"cluster": "kubeconfig", "kubeconfig": str(folder / "kubeconfig"), "ledgers": "kubernetes"}
        settings = load_settings(flags, {})
        caps = CapMetrics(telemetry.metrics.registry, telemetry.log)
        ledgers = _create_ledgers(load_client_config(settings), settings, caps)
        with record_modules() as modules:
            ledgers.transact(LedgerKey("cap", "team-a"), _Raise(), time.monotonic() + _WAIT_SECONDS)
        if not cluster.stored:
            raise RuntimeError("no ledger was stored")
    return modules


RUNS: dict[str, Callable[[], list[str]]] = {
    "create": run_create,
    "predict": run_predict,
    "policy-edit": run_policy_edit,
    "ledger-write": run_ledger_write,
    "check-snapshot": _run_on_snapshot("check", "{folder}/new.json", "--policies", "{folder}/policy.yaml"),
    "usage-snapshot": _run_on_snapshot("usage", "--policies", "{folder}/policy.yaml"),
    "audit-snapshot": _run_on_snapshot("audit", "--policies", "{folder}/policy.yaml"),
    "predict-snapshot": _run_on_snapshot(
        "predict", "pod/waits", "--namespace", "team-a", "--policies", "{folder}/policy.yaml"
    ),
}
"""The paths by name."""


def run_cold(name: str) -> list[str]:
    """Run one path in a new process and return the modules that it enters, each once, in order."""
    program = f"import json; from tests.paths.runs import RUNS; print(json.dumps(RUNS[{name!r}]()))"
    root_folder = Path(__file__).parents[2]
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=root_folder, capture_output=True, text=True, check=False)  # noqa: S603  # our own
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr}")
    modules: list[str] = json.loads(done.stdout.splitlines()[-1])
    return modules
