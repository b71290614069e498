"""An installation from the files of a release alone: the command's archive, the chart's package and the image.

A control plane of this machine has no node that runs images. So the containers of the chart's Deployments are run as a
kubelet would, in the files of the image: their arguments, their user, their volumes and their tokens. It is timed as
the first day of a user: from the unpacked archive to a scenario that passes, a pod that is rejected, and an answer of
the server of asks.
"""

import base64
import json
import os
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from e2e.command_output import run_kubectl
from e2e.installation.rendered import run_helm
from e2e.local.cluster import LocalCluster
from e2e.local.ports import free_ports
from e2e.ports import Cluster
from e2e.waiting import until
from tests.release.commands import ROOT, run_program

_NAMESPACE: Final = "tallygate-system"
_IN_NAMESPACE: Final = f"--namespace={_NAMESPACE}"
_SECRET: Final = "tallygate-tls"  # noqa: S105  the name of a Secret
_WITHIN: Final = 240.0  # seconds; a busy machine is slow
_ACCOUNT_FOLDER: Final = "var/run/secrets/kubernetes.io/serviceaccount"
_PATH: Final = "/opt/tallygate/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BAD: Final = ROOT / "e2e" / "manifests" / "half.yaml"
_SHOWN_LOG: Final = 3000


@dataclass(frozen=True, slots=True)
class ReleaseFiles:
    """The files of a release: the archive of the command, the chart's package, and the image's files.

    Each of the two containers gets image files of its own, since its volumes and its token are laid into them.
    """

    archive: Path
    chart: Path
    gate: Path
    asks: Path


def try_installation(files: ReleaseFiles, folder: Path, report: Callable[[str], None]) -> None:
    """Begin as a user does, with the files alone; report the seconds from the start to each first result.

    Raises:
        BuildError: if the control plane cannot be had on this machine.
        ClusterError: if Helm fails, or the gate rejects or the server answers nothing in time.
        ReleaseError: if a command has another exit code.
    """
    with LocalCluster() as cluster:
        begun = time.monotonic()
        with tarfile.open(files.archive) as packed:
            packed.extractall(folder, filter="data")
        program = folder / "tallygate" / "tallygate"
        run_program(program, "init", folder / "first", "--yes")
        run_program(program, "test", folder / "first" / "policies" / "tests")
        _report_time(report, "the first scenario passes", begun)
        https, monitor, asks_port, asks_monitor = free_ports(4)
        values = (
            f"ports.https={https},ports.monitor={monitor},replicaCount=1",
            f"ask.enabled=true,ask.url=https://127.0.0.1:{asks_port}",
            f"ask.extraArgs={{--listen=127.0.0.1:{asks_port},--monitor=127.0.0.1:{asks_monitor}}}",
        )
        options = (f"--namespace={_NAMESPACE}", "--create-namespace", *(f"--set={each}" for each in values))
        run_helm(cluster, "install", "tallygate", str(files.chart), *options)
        for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
            url = f"tallygate.dev/url=https://127.0.0.1:{https}"  # no Service leads to this process
            run_kubectl(cluster, "annotate", kind, "tallygate", url)
        with _run_container(cluster, "tallygate", files.gate) as read_log:
            until("a pod is rejected", lambda: _rejects(cluster), _WITHIN, read_log)
            _report_time(report, "the first pod is rejected", begun)
            until("the certificate is stored", lambda: _has_secret(cluster), _WITHIN, read_log)
            with _run_container(cluster, "tallygate-ask", files.asks) as read_log_of_asks:
                until("an ask is answered", lambda: _answers(cluster, program), _WITHIN, read_log_of_asks)
                _report_time(report, "the first ask is answered", begun)


def _report_time(report: Callable[[str], None], what: str, begun: float) -> None:
    report(f"  {time.monotonic() - begun:.0f} s: {what}")


def _rejects(cluster: Cluster) -> bool:
    done = cluster.kubectl("create", "--dry-run=server", f"--filename={_BAD}")
    return done.returncode != 0 and "TG101" in done.stderr


def _has_secret(cluster: Cluster) -> bool:
    return "tls.key" in cluster.kubectl("get", "secret", _SECRET, _IN_NAMESPACE, "--output=json").stdout


def _answers(cluster: Cluster, program: Path) -> bool:
    """Return whether the server rejects a pod by the policies of the chart, as `tallygate ask` of the archive says."""
    command = [str(program), f"--kubeconfig={cluster.kubeconfig}", "ask", "-f", str(_BAD)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  the archive's own
    return done.returncode == 1 and "TG101" in done.stdout


@contextmanager
def _run_container(cluster: Cluster, deployment: str, root: Path) -> Iterator[Callable[[], str]]:
    """Run the container of a Deployment for as long as the block runs; yield what returns the end of its log."""
    text = run_kubectl(cluster, "get", "deployment", deployment, _IN_NAMESPACE, "--output=json")
    pod = json.loads(text)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    _mount(cluster, pod, container, root)
    variables = {"PATH": _PATH, "HOME": "/", "TALLYGATE_NAMESPACE": _NAMESPACE, **_locate_server(cluster)}
    arguments = [each.replace("$(TALLYGATE_NAMESPACE)", _NAMESPACE) for each in container["args"]]
    log = root.with_suffix(".log")
    user = f"--userspec={pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}"
    (root / "proc").mkdir(exist_ok=True)
    own = ("unshare", "--mount", "--pid", "--fork", "--kill-child", f"--mount-proc={root / 'proc'}")
    command = [*own, "chroot", user, str(root), "/opt/tallygate/bin/tallygate", *arguments]
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=output, env=variables) as process,  # noqa: S603  no shell
    ):
        try:
            yield lambda: log.read_text(encoding="utf-8", errors="replace")[-_SHOWN_LOG:]
        finally:
            # The program has changed its user, which clears the signal that it would get at the end of `unshare`.
            for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split():
                os.kill(int(child), signal.SIGKILL)
            process.kill()


def _mount(cluster: Cluster, pod: Mapping[str, Any], container: Mapping[str, Any], root: Path) -> None:
    """Lay the volumes of the container, and its token, into the files of the image."""
    volumes = {each["name"]: each for each in pod["volumes"]}
    for mount in container["volumeMounts"]:
        target = root / mount["mountPath"].lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        volume = volumes[mount["name"]]
        for file, content in _read_volume(cluster, volume).items():
            (target / file).write_bytes(content)
        if "configMap" not in volume:
            _own(target, pod)
            for path in target.iterdir():
                _own(path, pod)
    secrets = root / _ACCOUNT_FOLDER
    secrets.mkdir(parents=True, exist_ok=True)
    account = pod["serviceAccountName"]
    token = run_kubectl(cluster, "create", "token", account, _IN_NAMESPACE, "--duration=1h")
    (secrets / "token").write_text(token.strip(), encoding="utf-8")
    (secrets / "namespace").write_text(_NAMESPACE, encoding="utf-8")
    (secrets / "ca.crt").write_bytes(base64.b64decode(_read_cluster(cluster)["certificate-authority-data"]))


def _own(path: Path, pod: Mapping[str, Any]) -> None:
    os.chown(path, pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"])


def _read_volume(cluster: Cluster, volume: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the files of a volume: those of a ConfigMap or of a Secret, none of another one."""
    if name := volume.get("configMap", {}).get("name"):
        text = run_kubectl(cluster, "get", "configmap", name, _IN_NAMESPACE, "--output=json")
        return {file: content.encode() for file, content in json.loads(text)["data"].items()}
    if name := volume.get("secret", {}).get("secretName"):
        data = json.loads(run_kubectl(cluster, "get", "secret", name, _IN_NAMESPACE, "--output=json"))["data"]
        return {item["path"]: base64.b64decode(data[item["key"]]) for item in volume["secret"]["items"]}
    return {}


def _locate_server(cluster: Cluster) -> dict[str, str]:
    address = urlsplit(_read_cluster(cluster)["server"])
    return {"KUBERNETES_SERVICE_HOST": address.hostname or "", "KUBERNETES_SERVICE_PORT": str(address.port)}


def _read_cluster(cluster: Cluster) -> dict[str, str]:
    config = yaml.safe_load(cluster.kubeconfig.read_text(encoding="utf-8"))
    found: dict[str, str] = config["clusters"][0]["cluster"]
    return found
