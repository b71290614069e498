"""The gate as a Deployment, called through its Service."""

import base64
import json
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from e2e.command_output import get_raw
from e2e.errors import ClusterError
from e2e.gates.reload_checks import match_certificate, match_policies
from e2e.installing import Installed
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Cluster
from e2e.waiting import until
from tallygate_certs.cert_files import CHAIN_FILE, KEY_FILE
from tallygate_certs.certificate_names import create_service_names
from tallygate_certs.renewal import issue

_WITHIN = 180  # seconds, until containers run or have ended, or something written is reloaded; a busy machine is slow
_POKED = 2.0  # seconds between pokes: the kubelet may sync a pod before it has seen what was written
_MONITOR = 9090
_SHOWN_LOG = 20  # lines

Pod = dict[str, Any]
Hold = Callable[[Pod], AbstractContextManager[None]]
"""Freezes the processes of a pod for as long as its block runs."""


class GateDeployment:
    """The gate of the shipped manifests, which are installed already; made stopped."""

    def __init__(self, cluster: Cluster, installed: Installed, folder: Path, hold: Hold) -> None:
        """Make its certificates in a folder, and hand them over; the policies are the shipped ones.

        Raises:
            ClusterError: if the API server refuses something.
        """
        self._cluster = cluster
        self._installed = installed
        self._hold = hold
        self._runs = False
        self._deployment = f"deployment/{installed.deployment}"
        self._selector = f"--selector={','.join(f'{key}={value}' for key, value in installed.pods.items())}"
        self.reached = installed.service
        self.certificates = folder / "certs"
        issue(self.certificates, create_service_names(self.reached.name, self.reached.namespace), datetime.now(UTC))
        self._write_certificate()
        self.write_policies(SHIPPED_FILES)

    def start(self) -> None:
        """Run it, and wait until it is ready and the API server reaches it.

        Raises:
            ClusterError: if it takes too long; the text has its log.
        """
        self._run_kubectl("scale", self._deployment, "--replicas=1")
        self._runs = True
        self._run_kubectl("rollout", "status", self._deployment, f"--timeout={_WITHIN}s")
        probe = partial(self._is_reached, f"probe-{uuid4().hex}")
        until("the API server reaches the gate", probe, _WITHIN, self._log_end)

    def stop(self) -> None:
        """End it by SIGTERM, and wait until it has ended; nothing happens when it does not run.

        Raises:
            ClusterError: if it has not in time.
        """
        self._run_kubectl("scale", self._deployment, "--replicas=0")
        until("the gate's pods are deleted", lambda: not self._pods(), _WITHIN)
        self._runs = False

    def freeze(self) -> AbstractContextManager[None]:
        """Freeze its processes for as long as the block runs.

        Raises:
            NotHereError: if they are out of reach.
        """
        return self._hold(self._pod())

    def write_policies(self, files: Mapping[str, str]) -> None:
        """Write these policy files, by name; return once the gate has loaded or rejected them.

        Raises:
            ClusterError: if it has not in time.
        """
        patch = json.dumps([{"op": "add", "path": "/data", "value": dict(files)}])
        self._run_kubectl("patch", "configmap", self._installed.policies, "--type=json", f"--patch={patch}")
        if self._runs:
            self._until("the policies are reloaded", match_policies(files))

    def reload_certificate(self) -> None:
        """Hand over the files in `certificates`, and return once the gate serves with them.

        Raises:
            ClusterError: if it does not in time.
        """
        self._write_certificate()
        self._until("the certificate is reloaded", match_certificate(self.certificates))

    def readiness(self) -> dict[str, Any]:
        """Return the content of its `/readyz`, ready or not.

        Raises:
            ClusterError: if it does not run, or does not answer.
        """
        pod = self._pod()["metadata"]
        path = f"/api/v1/namespaces/{pod['namespace']}/pods/{pod['name']}:{_MONITOR}/proxy/readyz"
        text = get_raw(self._cluster, path)
        try:
            checks: dict[str, Any] = json.loads(text)
        except ValueError:  # the API server's own words, when it does not reach the pod
            raise ClusterError(f"the gate's readiness: {text.strip()}") from None
        if "checks" not in checks:
            raise ClusterError(f"the gate's readiness: {checks.get('message', text)}")
        return checks

    def log(self) -> str:
        """Return the log of the running container."""
        return self._run_kubectl("logs", self._deployment)

    def _is_reached(self, name: str) -> bool:
        """Return whether it has logged a pod, if it is registered: the Service leads to it a moment after it is ready.

        It logs a moment later, so that this is asked again and again about the same name.
        """
        if not self._is_registered():
            return True
        self._cluster.kubectl("run", name, "--namespace=default", "--image=none", "--dry-run=server")
        return name in self.log()

    def _is_registered(self) -> bool:
        kind = "validatingwebhookconfiguration"
        checks = self._run_kubectl("get", kind, "tallygate", "--ignore-not-found", "--output=name")
        return bool(checks)

    def _write_certificate(self) -> None:
        files = {
            name: base64.b64encode((self.certificates / name).read_bytes()).decode() for name in (CHAIN_FILE, KEY_FILE)
        }
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": self._installed.certificates},
            "type": "kubernetes.io/tls",
            "data": files,
        }
        self._run_kubectl("apply", "--server-side", "--filename=-", stdin=json.dumps(secret))

    def _until(self, what: str, is_so: Callable[[dict[str, Any]], bool]) -> None:
        """Wait until readiness shows it; the kubelet syncs once a minute, and whenever a pod is changed."""
        poked = 0.0

        def is_true() -> bool:
            nonlocal poked
            if time.monotonic() - poked > _POKED:
                poked = time.monotonic()
                self._run_kubectl(
                    "annotate", "pods", self._selector, "--overwrite", f"tallygate.dev/poked={uuid4().hex}"
                )
            try:
                return is_so(self.readiness())
            except ClusterError:  # a busy machine: it is asked again
                return False

        until(what, is_true, _WITHIN, self._log_end)

    def _pod(self) -> Pod:
        pods = self._pods()
        if len(pods) != 1:
            raise ClusterError(f"the gate has {len(pods)} pods; one was expected")
        return pods[0]

    def _pods(self) -> list[Pod]:
        items: list[Pod] = json.loads(self._run_kubectl("get", "pods", self._selector, "--output=json"))["items"]
        return items

    def _log_end(self) -> str:
        return "\n".join(self.log().splitlines()[-_SHOWN_LOG:])

    def _run_kubectl(self, *args: str, stdin: str | None = None) -> str:
        done = self._cluster.kubectl(f"--namespace={self._installed.namespace}", *args, stdin=stdin)
        if done.returncode:
            raise ClusterError(f"kubectl {args[0]}: {done.stderr.strip()}")
        return done.stdout
