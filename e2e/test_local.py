"""The local control plane is the real thing, and what Kubernetes does by itself with what it counts."""

import json
import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.command_output import run_kubectl
from e2e.errors import ClusterError
from e2e.local.build import kubernetes_version
from e2e.local.cluster import LocalCluster
from e2e.ports import Site
from e2e.suite_node import restore_node
from e2e.waiting import until

_ROOT = Path(__file__).parent.parent
_MANIFESTS = Path(__file__).parent / "manifests"
_TAKEN_FOR_DEAD = 50  # seconds after its last sign of life (--node-monitor-grace-period, v1.36)
_BANANAS = "pod.alpha.kubernetes.io/opaque-int-resource-bananas"


@pytest.fixture(scope="session")
def cluster(site: Site) -> LocalCluster:
    """Return the local control plane; elsewhere there is nothing to test here."""
    if not isinstance(site.cluster, LocalCluster):
        pytest.skip("it is about the local control plane itself")
    return site.cluster


def _pods(cluster: LocalCluster, namespace: str, phase: str) -> list[dict[str, Any]]:
    output = run_kubectl(
        cluster, "get", "pods", "-n", namespace, f"--field-selector=status.phase={phase}", "--output=json"
    )
    items: list[dict[str, Any]] = json.loads(output)["items"]
    return items


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_kubectl_and_the_server_say_which_version_they_are(cluster: LocalCluster) -> None:
    output = json.loads(run_kubectl(cluster, "version", "--output=json"))
    versions = {output["clientVersion"]["gitVersion"], output["serverVersion"]["gitVersion"]}
    assert versions == {kubernetes_version()}


def test_the_api_server_is_ready_and_so_is_the_node(site: Site, cluster: LocalCluster) -> None:
    assert run_kubectl(cluster, "get", "--raw", "/readyz") == "ok"
    ready = '{.status.conditions[?(@.type=="Ready")].status}'
    assert run_kubectl(cluster, "get", "node", site.node, f"--output=jsonpath={ready}") == "True"


def test_the_node_lives_by_its_lease_so_that_no_change_of_it_puts_off_its_heartbeat(
    site: Site, cluster: LocalCluster
) -> None:
    lease = json.loads(run_kubectl(cluster, "get", "lease", site.node, "-n", "kube-node-lease", "--output=json"))
    assert lease["spec"]["renewTime"]
    assert lease["spec"]["leaseDurationSeconds"] < _TAKEN_FOR_DEAD


def test_rbac_is_enforced_and_service_accounts_have_signed_tokens(cluster: LocalCluster, namespace: str) -> None:
    token = run_kubectl(cluster, "create", "token", "default", "-n", namespace).strip()
    assert token.count(".") == 2
    user = f"system:serviceaccount:{namespace}:default"
    # Without the administrator's kubeconfig, whose certificate would speak louder than the token.
    server = run_kubectl(cluster, "config", "view", "--minify", "--output=jsonpath={.clusters[0].cluster.server}")
    authority = cluster.folder / "credentials" / "ca.crt"
    done = cluster.kubectl(
        "--kubeconfig=/dev/null", f"--server={server}", f"--certificate-authority={authority}", f"--token={token}",
        "get", "pods", "-n", namespace,
    )  # fmt: skip
    assert done.returncode == 1
    assert f'User "{user}" cannot list resource "pods"' in done.stderr


def test_four_dongles_run_four_pods_and_two_wait(site: Site, cluster: LocalCluster, namespace: str) -> None:
    restore_node(site, namespace)
    run_kubectl(cluster, "apply", "-n", namespace, "-f", str(_MANIFESTS / "dongles.yaml"))
    available = "--for=jsonpath={.status.availableReplicas}=4"
    run_kubectl(cluster, "wait", available, "--timeout=240s", "-n", namespace, "deployment/dongles")
    waiting = _pods(cluster, namespace, "Pending")
    names = [f"pod/{pod['metadata']['name']}" for pod in waiting]
    run_kubectl(cluster, "wait", "--for=condition=PodScheduled=False", "--timeout=240s", "-n", namespace, *names)
    assert len(_pods(cluster, namespace, "Running")) == 4
    reasons = [pod["status"]["conditions"][0]["message"] for pod in _pods(cluster, namespace, "Pending")]
    assert len(reasons) == 2
    assert all("Insufficient example.com/dongle" in reason for reason in reasons)


def test_kubernetes_stores_one_and_a_half_opaque_bananas(cluster: LocalCluster, namespace: str) -> None:
    run_kubectl(cluster, "apply", "-n", namespace, "-f", str(_MANIFESTS / "one-and-a-half-bananas.yaml"))
    (pod,) = _pods(cluster, namespace, "Pending")
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {_BANANAS: "1500m"}


def test_jobs_finish_and_deletes_complete(cluster: LocalCluster, namespace: str) -> None:
    run_kubectl(cluster, "create", "job", "once", "-n", namespace, "--image=example.com/none:1")
    run_kubectl(cluster, "wait", "--for=condition=Complete", "--timeout=240s", "-n", namespace, "job/once")
    run_kubectl(cluster, "delete", "--timeout=240s", "--cascade=foreground", "-n", namespace, "job/once")
    assert run_kubectl(cluster, "get", "pods", "-n", namespace, "--output=name") == ""


def test_a_component_that_dies_is_named_with_its_log_and_nothing_stays() -> None:
    with pytest.raises(ClusterError) as caught, LocalCluster() as cluster:  # noqa: PT012  the start is part of the case
        components = cluster.components
        (scheduler,) = (each for each in components if each.name == "kube-scheduler")
        os.kill(scheduler.pid, signal.SIGKILL)
        os.waitid(os.P_PID, scheduler.pid, os.WEXITED | os.WNOWAIT)
        cluster.kubectl("get", "pods")
    first, *log = str(caught.value).splitlines()
    assert first == "kube-scheduler ended by itself, with -9; the end of its log:"
    assert log
    assert not cluster.folder.exists()
    assert not any(_runs(each.pid) for each in components)


_ENFORCED = "Z\n"  # the line of the cap ends with the time of its last recount: it has no note

# The results of the printed commands, in their order: exit code, and a part of the output.
_DEV_RESULTS = (
    (1, "1500m is not a whole number"),
    (0, "did you mean nvidia.com/gpu?"),
    (1, "is requested without a limit"),
    (1, "never on these nodes"),
    (0, "it requests 9 nvidia.com/gpu, the largest node has 8"),
    (0, "no node advertises example.com/seat"),
    (0, "changed"),
    (0, "Running"),
    (1, "its pods use 1, and 0 would be left: default/seat (1)"),
    (0, "example.com/ip"),
    (0, "created"),
    (1, "not now: 3 of 4 replicas, on addresses (3)"),
    (0, "created"),
    (0, "Insufficient example.com/ip"),
    (0, ""),
    (0, "4\n"),
    (0, _ENFORCED),
    (0, "3 of them can run at a time"),
    (0, "cap dongle-seats shared by its namespaces exceeded"),
    (0, "namespace/team-b created"),
    (1, "exceeded: requested 2 example.com/dongle, used 3"),
    (1, "exceeded: requested 2 example.com/dongle, used 3"),
    (0, ""),
    (1, "one-licence-per-pod"),
    (0, "registered"),
)


def test_the_dev_cluster_prints_commands_that_do_what_it_says_and_leaves_nothing_behind() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "e2e.dev_cluster"],
        cwd=_ROOT,
        env={name: value for name, value in os.environ.items() if name != "TALLYGATE_NEW_CAPS"},
        stdout=subprocess.PIPE,
        text=True,
    ) as dev_cluster:
        assert dev_cluster.stdout is not None
        try:
            lines = _until_ctrl_c(dev_cluster)
            exports = [line.strip() for line in lines if line.startswith("  export ")]
            (kubeconfig,) = (Path(line.partition("=")[2]) for line in exports if "KUBECONFIG=" in line)
            assert kubeconfig.exists()
            assert "https://0.0.0.0" not in "".join(lines)
            printed = [line for line in lines if re.match("  (kubectl|tallygate|cp|sed) ", line)]
            commands = [line.partition("  #")[0].strip() for line in printed]
            for command, (code, text) in zip(commands, _DEV_RESULTS, strict=True):
                shell = "; ".join([*exports, command])
                until(f"{command}: {code}, {text}", partial(_ends_with, shell, code, text), 240.0)
        finally:  # or the case would wait for it, whatever failed
            dev_cluster.send_signal(signal.SIGINT)
        assert dev_cluster.stdout.read() == "\nstopped\n"
    assert dev_cluster.returncode == 0
    assert not kubeconfig.parent.parent.exists()


def _ends_with(shell: str, code: int, text: str) -> bool:
    """Return whether the commands end with this code and print this text; the controllers need some time."""
    done = subprocess.run(  # noqa: S603  the printed commands
        ["/bin/sh", "-c", shell],
        cwd=_ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode == code and text in done.stdout + done.stderr


def _until_ctrl_c(dev_cluster: subprocess.Popen[str]) -> list[str]:
    lines: list[str] = []
    for line in dev_cluster.stdout or ():
        lines.append(line)
        if line.startswith("Ctrl-C"):
            break
    return lines


def test_a_machine_without_go_gets_one_sentence(tmp_path: Path) -> None:
    done = _build(tmp_path, {"PATH": str(tmp_path)})
    assert done.returncode == 2
    (sentence,) = done.stderr.splitlines()
    assert all(word in sentence for word in ("Go modules", "no `go` on PATH", "install Go 1.26", "go.dev/doc/install"))
    assert list(tmp_path.iterdir()) == []


def test_a_version_without_a_release_here_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    done = _build(tmp_path, {**os.environ, "KUBERNETES": "1.12.0"})
    assert done.returncode == 2
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("tallygate: KUBERNETES=1.12.0: no control plane of that version can be built; there are")
    assert kubernetes_version().removeprefix("v") in sentence


def test_a_build_that_fails_says_why_and_leaves_nothing_half_built(tmp_path: Path) -> None:
    nothing = tmp_path / "modules"
    done = _build(tmp_path, {**os.environ, "GOMODCACHE": str(nothing), "GOPROXY": "off"})
    assert done.returncode == 2
    assert "tallygate: Kubernetes' control plane cannot be built; `go build` in" in done.stderr
    assert "module lookup disabled by GOPROXY=off" in done.stderr
    assert [each.name for each in (tmp_path / "tallygate").iterdir()] == ["lock"]


def test_a_build_that_is_interrupted_leaves_nothing_half_built(tmp_path: Path) -> None:
    cache = subprocess.run(["go", "env", "GOCACHE"], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S607  whichever Go is on PATH
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "GOCACHE": cache, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-m", "e2e.local.build"], cwd=_ROOT, env=environment, stderr=subprocess.PIPE, text=True
    ) as build:
        assert build.stderr is not None
        assert build.stderr.readline().startswith("building Kubernetes' control plane (once;")
        build.send_signal(signal.SIGTERM)
        assert build.wait() == 130
    assert [each.name for each in tmp_path.iterdir()] == ["tallygate"]
    assert [each.name for each in (tmp_path / "tallygate").iterdir()] == ["lock"]


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "tallygate").write_text("a file where the folder goes")
    done = _build(tmp_path, dict(os.environ))
    assert done.returncode == 2
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith(f"tallygate: {tmp_path / 'tallygate'}: File exists;")
    assert "XDG_CACHE_HOME" in sentence


def _build(cache: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "e2e.local.build"],
        cwd=_ROOT,
        env={**environment, "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
