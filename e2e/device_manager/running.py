"""The manager of device plugins, built once from `e2e/device_manager`, and driven by commands in JSON.

It serves `kubelet.sock` in a folder, deletes the other sockets there at its start, registers plugins, follows their
lists, and allocates devices to pods, which it remembers in the kubelet's checkpoint. The end of the program and another
one over the same folder are a restart of the kubelet.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from e2e.errors import ClusterError
from e2e.go_program import GoProgram

DEVICE_MANAGER: Final = GoProgram(
    "devicemanager", "the kubelet's manager of device plugins", ".", Path(__file__).parent
)


@dataclass(frozen=True)
class DeviceManager:
    """A manager that runs; its answers are those of the kubelet's code."""

    commands: IO[str]
    answers: IO[str]

    def find_amounts(self, resource: str) -> tuple[int, int]:
        """Return the capacity and the allocatable amount of a resource, as the node's status has them."""
        answer = self._ask(name="capacity")
        return answer.get("capacity", {}).get(resource, 0), answer.get("allocatable", {}).get(resource, 0)

    def allocate(self, pod: str, amounts: Mapping[str, int]) -> dict[str, Any]:
        """Admit a pod of one container with these limits; return its devices, health and options of the runtime.

        Raises:
            ClusterError: if the kubelet does not admit it; the text is the kubelet's.
        """
        return self._ask_well(name="allocate", pod=pod, count=dict(amounts))

    def remember(self, pod: str, amounts: Mapping[str, int]) -> dict[str, Any]:
        """Name a pod that was admitted before a restart; return the same as at its admission."""
        return self._ask_well(name="known", pod=pod, count=dict(amounts))

    def find_status(self, pod: str) -> dict[str, Any]:
        """Return the same as at the pod's admission, with the current health."""
        return self._ask_well(name="status", pod=pod)

    def remove(self, pod: str) -> None:
        """End a pod, which returns its devices."""
        self._ask_well(name="remove", pod=pod)

    def _ask_well(self, **command: Any) -> dict[str, Any]:
        answer = self._ask(**command)
        if "error" in answer:
            raise ClusterError(answer["error"])
        return answer

    def _ask(self, **command: Any) -> dict[str, Any]:
        print(json.dumps(command), file=self.commands, flush=True)
        answer: dict[str, Any] = json.loads(self.answers.readline())
        return answer


@contextmanager
def run_device_manager(folder: Path) -> Iterator[DeviceManager]:
    """Run a manager over the folder of sockets, and kill it at the end, as the end of a machine would.

    Raises:
        BuildError: if it cannot be built.
    """
    program = DEVICE_MANAGER.program()
    with (
        (folder.parent / "kubelet.log").open("ab") as log,
        subprocess.Popen(  # noqa: S603  a program of ours
            [program, folder / "kubelet.sock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            if process.stdin is None or process.stdout is None or not process.stdout.readline():
                raise ClusterError(f"the manager of device plugins does not start; {log.name} has the reason")
            yield DeviceManager(process.stdin, process.stdout)
        finally:
            process.kill()
