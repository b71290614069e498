"""A server of asks as a process on this machine, with the rights of its ServiceAccount and nothing more."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self
from uuid import uuid4

import httpx

from e2e.api import Api, Object, api
from e2e.command_output import run_kubectl
from e2e.errors import ClusterError
from e2e.gates.forked import TALLYGATE, fork
from e2e.gates.running import LOOPBACK, WITHIN, RunningGate
from e2e.local.component import Start
from e2e.local.ports import free_ports
from e2e.namespaces import gates_namespace
from e2e.ports import Cluster
from e2e.service_account import as_service_account
from e2e.trust import Trust
from e2e.waiting import until
from tallygate.admission.webhook_configuration import DEFAULT_NAMESPACE
from tallygate.state.kubernetes.ask_address_store import ASK_NAME, CA_KEY, URL_KEY
from tallygate_certs.certificate_names import parse_names
from tallygate_certs.renewal import issue

COMPONENT: Final = Path(__file__).parents[2] / "deploy" / "kustomize" / "components" / "ask"
_ANSWER: Final = 60.0  # seconds; a busy machine is slow


def create_asks_account(cluster: Cluster, folder: Path, seconds: int = 3600) -> Path:
    """Create the ServiceAccount of the server of asks as shipped, with its rights; return a kubeconfig.

    Its token is valid for a number of seconds.

    Raises:
        ClusterError: if the API server rejects something, or does not know its rights in time.
    """
    gates_namespace(cluster)
    files = (COMPONENT / "serviceaccount.yaml", COMPONENT / "rbac.yaml")
    run_kubectl(cluster, "apply", *(f"--filename={file}" for file in files))
    kubeconfig = as_service_account(cluster, DEFAULT_NAMESPACE, ASK_NAME, folder / "asks.kubeconfig", seconds)
    with Api(kubeconfig) as account:
        until("the API server knows its rights", lambda: account.ask("GET", "/api/v1/nodes").is_done, WITHIN)
    return kubeconfig


@contextmanager
def provide_asks_account(cluster: Cluster, folder: Path) -> Iterator[Path]:
    """Yield a kubeconfig of the ServiceAccount of the server of asks; delete it with its rights and the address then.

    Raises:
        ClusterError: if the API server rejects something, or does not know its rights in time.
    """
    try:
        yield create_asks_account(cluster, folder)
    finally:
        files = [f"--filename={COMPONENT / name}" for name in ("serviceaccount.yaml", "rbac.yaml", "address.yaml")]
        run_kubectl(cluster, "delete", "--ignore-not-found", *files)


def create_ask_token(cluster: Cluster, namespace: str, account: str, *audiences: str) -> str:
    """Return a token of a ServiceAccount that is valid for an hour; without audiences it is for the API server's own.

    Raises:
        ClusterError: if there is no such ServiceAccount.
    """
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    made: Object = api(cluster.kubeconfig).create(path, {"spec": {"audiences": audiences} if audiences else {}})
    token: str = made["status"]["token"]
    return token


class AskServer(RunningGate):
    """`tallygate serve-ask`, with the policies of a gate."""

    def __init__(  # noqa: PLR0913  # what a server has
        self,
        folder: Path,
        kubeconfig: Path,
        policies: Path,
        *,
        start: Start = fork,
        arguments: Sequence[str] = (),
        names: Sequence[str] = (),
        certificates: Path | None = None,
    ) -> None:
        """Make its certificate, also for these names, if it has none; nothing runs yet.

        `arguments` are more of its command line. `certificates` names a folder where those of a gate lie already.
        """
        folder.mkdir(parents=True)
        if certificates is None:
            certificates = folder / "certs"
            issue(certificates, parse_names([LOOPBACK, *names]), datetime.now(UTC))
        self.port, monitor = free_ports(2)
        super().__init__(folder, monitor)
        self.authority = (certificates / "ca.crt").read_text(encoding="ascii")
        self.url = f"https://{LOOPBACK}:{self.port}"
        self._start = start
        self._command = (
            *TALLYGATE,
            "serve-ask",
            "--cluster=kubeconfig",
            f"--kubeconfig={kubeconfig}",
            f"--listen={LOOPBACK}:{self.port}",
            f"--monitor={LOOPBACK}:{monitor}",
            f"--tls-cert={certificates / 'tls.crt'}",
            f"--tls-key={certificates / 'tls.key'}",
            f"--policies={policies}",
            "--drain-delay=1s",
            *arguments,
        )

    def __enter__(self) -> Self:
        """Run it, and wait until it is ready.

        Raises:
            ClusterError: if it ends, or is not ready in time.
        """
        self.run(self._command, {}, self._start)
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.stop()

    def publish(self, cluster: Cluster, url: str = "") -> None:
        """Write the ConfigMap by which all users find it, as a gate does, with this address or its own.

        Raises:
            ClusterError: if the API server refuses something.
        """
        run_kubectl(cluster, "apply", f"--filename={COMPONENT / 'address.yaml'}")
        data = {"data": {URL_KEY: url or self.url, CA_KEY: self.authority}}
        api(cluster.kubeconfig).patch(f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/configmaps/{ASK_NAME}", data)

    def open_client(
        self, token: str = "", headers: Mapping[str, str] | None = None, pair: Path | None = None
    ) -> httpx.Client:
        """Return a client that trusts its authority alone, with a token unless it is empty, and further headers.

        `pair` is a file with a client certificate and its key.
        """
        trust = Trust(self.authority)
        if pair is not None:
            trust.load_cert_chain(pair)
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(
            base_url=self.url,
            headers={**bearer, **(headers or {})},
            verify=trust,
            timeout=_ANSWER,
            trust_env=False,
        )


def ask(client: httpx.Client, manifest: Object, namespace: str) -> dict[str, Any]:
    """Return the answer about one object, which is asked again while the server is busy.

    Raises:
        ClusterError: if it is busy for too long, or refuses the ask.
    """
    answers: list[httpx.Response] = []
    content = json.dumps(manifest).encode()

    def is_answered() -> bool:
        answers.append(client.post("/v1/ask", params={"namespace": namespace}, content=content))
        return answers[-1].status_code not in {429, 503}

    until("the ask is answered", is_answered, _ANSWER)
    if answers[-1].status_code != httpx.codes.OK:
        raise ClusterError(f"the ask is refused: {answers[-1].text}")
    found: dict[str, Any] = answers[-1].json()
    return found


def create_name(prefix: str) -> str:
    """Return a name that no other object has."""
    return f"{prefix}-{uuid4().hex[:10]}"
