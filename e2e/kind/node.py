"""A node of a kind cluster: a container, whose processes can be reached through the engine."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.errors import ClusterError
from e2e.waiting import until

_WITHIN = 300.0  # seconds; the kubelet waits longer each time that a container has ended
_ANSWER = 60.0  # seconds for a command

# The processes of a pod are those whose control group has its uid in its name; systemd's names have _ for - (kubelet's
# pkg/kubelet/cm/cgroup_manager_linux.go, v1.36).
_SIGNAL = """
signal=$1 uid=$2 program=$3
for pid in $(grep -lsE "pod($uid|$(echo "$uid" | tr - _))" /proc/[0-9]*/cgroup | cut -d/ -f3); do
  if tr '\\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -q -- "$program"; then kill -s "$signal" "$pid"; fi
done
"""


class Node:
    """The node of this name, which is also the container's."""

    def __init__(self, docker: str, name: str) -> None:
        self._docker = docker
        self._name = name

    @contextmanager
    def freeze(self, uid: str, program: str = "") -> Iterator[None]:
        """Freeze the processes of the pod with this uid for as long as the block runs; `program` as for `kill`.

        Raises:
            ClusterError: if they are not to be reached.
        """
        try:
            self._signal("STOP", uid, program)
            yield
        finally:
            self._signal("CONT", uid, program)

    def kill(self, uid: str, program: str) -> None:
        """Kill the processes of the pod with this uid whose command line has `program` in it; the pod stays.

        Words of a command line have a space between them.

        Raises:
            ClusterError: if they are not to be reached.
        """
        self._signal("KILL", uid, program)

    def run(self, *command: str) -> str:
        """Run a command on the node, and return what it prints.

        Raises:
            ClusterError: if it fails.
        """
        return self._run_checked(*command)

    def replace_process(self, name: str) -> None:
        """Kill the process of this name, and wait until the kubelet has started another.

        Raises:
            ClusterError: if it does not run, or is not started again.
        """
        before = self._pids(name)
        if not before:
            raise ClusterError(f"no {name} runs on the node {self._name}")
        self._run_checked("kill", "-s", "KILL", *before)
        until(f"{name} runs again on {self._name}", lambda: bool(self._pids(name) - before), _WITHIN)

    def _signal(self, name: str, uid: str, program: str) -> None:
        self._run_checked("sh", "-euc", _SIGNAL, "sh", name, uid, program)

    def _pids(self, name: str) -> set[str]:
        return set(self._run("pgrep", "-x", name).stdout.split())

    def _run_checked(self, *command: str) -> str:
        done = self._run(*command)
        if done.returncode:
            raise ClusterError(f"{' '.join(command[:1])} on the node {self._name}: {done.stderr.strip()}")
        return done.stdout

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603  the engine's command, and no shell out here
            [self._docker, "exec", self._name, *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_ANSWER,
        )
