"""The files of the demonstration: a cap, three pods, and the paths of all other files."""

from dataclasses import dataclass
from pathlib import Path

_CAP_YAML = """\
# A cap for the first run: what namespace team-a may use.
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
DEMO_PODS = {
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
class DemoFiles:
    """The paths of the demonstration in one folder, which `write` creates."""

    folder: Path

    @property
    def certificate_folder(self) -> Path:
        return self.folder / "tls"

    @property
    def ca_file(self) -> Path:
        """The CA file that a client of the gate trusts."""
        return self.certificate_folder / "ca.crt"

    @property
    def policy_folder(self) -> Path:
        """The folder of the cap, which is active beside the shipped policies."""
        return self.folder / "policies"

    @property
    def kubeconfig_file(self) -> Path:
        """The kubeconfig of the server of asks, for the cluster of the demonstration."""
        return self.folder / "kubeconfig"

    def get_log_file(self, name: str) -> Path:
        """Return the path of the log of a server."""
        return self.folder / f"{name}.log"

    def get_pod_file(self, name: str) -> Path:
        """Return the path of a pod's manifest."""
        return self.folder / f"{name}.yaml"

    def get_review_file(self, name: str, phase: str) -> Path:
        """Return the path of the review that an API server would send for a pod."""
        return self.folder / f"{name}.{phase}.json"

    def write(self) -> None:
        """Write the cap and the pods."""
        self.policy_folder.mkdir(parents=True, exist_ok=True)
        (self.policy_folder / "cap.yaml").write_text(_CAP_YAML, encoding="utf-8")
        for name, text in DEMO_PODS.items():
            self.get_pod_file(name).write_text(text, encoding="utf-8")
