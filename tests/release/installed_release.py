"""An installation from the files of a release: the chart's package, and the gate from the files of the image.

A control plane of this machine has no node that runs images. So the container of the chart's Deployment is run as a
kubelet would, in the files of the image: its arguments, its user, its volumes and its token.
"""

import base64
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
from tests.release.commands import ROOT

_NAMESPACE: Final = "tallygate-system"
_WITHIN: Final = 240.0  # seconds; a busy machine is slow
_ACCOUNT_FOLDER: Final = "var/run/secrets/kubernetes.io/serviceaccount"
_PATH: Final = "/opt/tallygate/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BAD: Final = ROOT / "e2e" / "manifests" / "half.yaml"
_SHOWN_LOG: Final = 3000


def try_installation(chart: Path, root: Path) -> None:
    """Install a chart's package, run its gate from the files of the image in `root`, and see it reject a pod.

    Raises:
        BuildError: if the control plane cannot be had on this machine.
        ClusterError: if Helm fails, or the gate rejects nothing in time.
    """
    with LocalCluster() as cluster:
        https, monitor = free_ports(2)
        values = f"ports.https={https},ports.monitor={monitor},replicaCount=1"
        options = (f"--namespace={_NAMESPACE}", "--create-namespace", f"--set={values}")
        run_helm(cluster, "install", "tallygate", str(chart), *options)
        for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
            url = f"tallygate.dev/url=https://127.0.0.1:{https}"  # no Service leads to this process
            run_kubectl(cluster, "annotate", kind, "tallygate", url)
        with _run_container(cluster, root) as read_log:
            until("a pod is rejected", lambda: _rejects(cluster), _WITHIN, read_log)


def _rejects(cluster: Cluster) -> bool:
    done = cluster.kubectl("create", "--dry-run=server", f"--filename={_BAD}")
    return done.returncode != 0 and "TG101" in done.stderr


@contextmanager
def _run_container(cluster: Cluster, root: Path) -> Iterator[Any]:
    """Run the container of the Deployment for as long as the block runs; yield what returns the end of its log."""
    name = f"--namespace={_NAMESPACE}"
    text = run_kubectl(cluster, "get", "deployment", "tallygate", name, "--output=json")
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
            process.kill()  # `unshare` ignores SIGTERM, and kills the gate with itself


def _mount(cluster: Cluster, pod: Mapping[str, Any], container: Mapping[str, Any], root: Path) -> None:
    """Lay the volumes of the container, and its token, into the files of the image."""
    volumes = {each["name"]: each for each in pod["volumes"]}
    for mount in container["volumeMounts"]:
        target = root / mount["mountPath"].lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        if name := volumes[mount["name"]].get("configMap", {}).get("name"):
            text = run_kubectl(cluster, "get", "configmap", name, f"--namespace={_NAMESPACE}", "--output=json")
            for file, content in json.loads(text)["data"].items():
                (target / file).write_text(content, encoding="utf-8")
        else:
            os.chown(target, pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"])
    secrets = root / _ACCOUNT_FOLDER
    secrets.mkdir(parents=True, exist_ok=True)
    account = pod["serviceAccountName"]
    token = run_kubectl(cluster, "create", "token", account, f"--namespace={_NAMESPACE}", "--duration=1h")
    (secrets / "token").write_text(token.strip(), encoding="utf-8")
    (secrets / "namespace").write_text(_NAMESPACE, encoding="utf-8")
    (secrets / "ca.crt").write_bytes(base64.b64decode(_read_cluster(cluster)["certificate-authority-data"]))


def _locate_server(cluster: Cluster) -> dict[str, str]:
    address = urlsplit(_read_cluster(cluster)["server"])
    return {"KUBERNETES_SERVICE_HOST": address.hostname or "", "KUBERNETES_SERVICE_PORT": str(address.port)}


def _read_cluster(cluster: Cluster) -> dict[str, str]:
    config = yaml.safe_load(cluster.kubeconfig.read_text(encoding="utf-8"))
    found: dict[str, str] = config["clusters"][0]["cluster"]
    return found
