"""The files of a first run: a cap and three pods to show what the gate says, and where everything lies."""

from dataclasses import dataclass
from pathlib import Path

_CAP = """\
# A cap for the first run: what namespace team-a may hold.
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata:
  name: team-a-gpus
  annotations:
    tallygate.dev/why: team-a shares this machine's four GPUs
spec:
  namespaces: {include: [team-a]}
  hard: {nvidia.com/gpu: 4}
"""
PODS = {
    "good": """\
apiVersion: v1
kind: Pod
metadata: {name: good, namespace: team-a}
spec:
  containers:
  - name: train
    image: registry.example/train
    resources:
      limits: {nvidia.com/gpu: 2}
""",
    "bad": """\
apiVersion: v1
kind: Pod
metadata: {name: bad, namespace: team-a}
spec:
  containers:
  - name: fraction
    image: registry.example/train
    resources:
      limits: {nvidia.com/gpu: 1500m}
  - name: uneven
    image: registry.example/train
    resources:
      requests: {nvidia.com/gpu: 1}
      limits: {nvidia.com/gpu: 2}
""",
    "greedy": """\
apiVersion: v1
kind: Pod
metadata: {name: greedy, namespace: team-a}
spec:
  containers:
  - name: train
    image: registry.example/train
    resources:
      limits: {nvidia.com/gpu: 3}
""",
}


@dataclass(frozen=True, slots=True)
class ServingFiles:
    """Everything in one folder, which is made when it is not there."""

    folder: Path

    @property
    def certificates(self) -> Path:
        """The folder of the certificate and its authority."""
        return self.folder / "tls"

    @property
    def authority(self) -> Path:
        """What a client has to trust."""
        return self.certificates / "ca.crt"

    @property
    def policies(self) -> Path:
        """The cap, which is in force beside the shipped policies."""
        return self.folder / "policies"

    @property
    def log(self) -> Path:
        """What the gate logs."""
        return self.folder / "gate.log"

    def pod(self, name: str) -> Path:
        """A pod as kubectl would be given it."""
        return self.folder / f"{name}.yaml"

    def review(self, name: str, phase: str) -> Path:
        """The review that an API server would send about a pod."""
        return self.folder / f"{name}.{phase}.json"

    def write(self) -> None:
        """Write the cap and the pods."""
        self.policies.mkdir(parents=True, exist_ok=True)
        (self.policies / "cap.yaml").write_text(_CAP, encoding="utf-8")
        for name, text in PODS.items():
            self.pod(name).write_text(text, encoding="utf-8")
