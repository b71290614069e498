"""Several gates behind one address, with one certificate and the same policies."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from certs.certificate_names import parse_names
from certs.renewal import issue
from e2e.forwarder import Forwarder
from e2e.gates.process import GateProcess
from e2e.gates.relay import RelayedGate
from e2e.gates.running import HERE, LOOPBACK
from webhook.admission.webhook_configuration import UrlTarget

Front = Callable[[Sequence[GateProcess]], Forwarder]
"""Makes what passes connections on to these."""


class Replicas:
    """So many processes, called as one gate. `each` are they: one may be killed, frozen and started again."""

    def __init__(
        self, folder: Path, count: int, arguments: Sequence[str], front: Front | None = None, *, relayed: bool = False
    ) -> None:
        """Nothing runs yet; `arguments` are more of the command line of each, `front` makes what stands in front.

        With `relayed` each has a relay, which is led to the others by what stands in front of all.
        """
        self.certificates = folder / "certs"
        issue(self.certificates, parse_names([HERE, LOOPBACK]), datetime.now(UTC))
        made: type[GateProcess] = RelayedGate if relayed else GateProcess
        self.each = [
            made(folder / f"gate-{at}", arguments=arguments, certificates=self.certificates) for at in range(count)
        ]
        self._balancer = front(self.each) if front else Forwarder(*(gate.port for gate in self.each))
        for gate in self.relayed:
            gate.others = f"{LOOPBACK}:{self._balancer.port}"
        self.reached = UrlTarget(f"https://{HERE}:{self._balancer.port}")
        self._ends = ExitStack()

    @property
    def relayed(self) -> list[RelayedGate]:
        """Those that have a relay."""
        return [gate for gate in self.each if isinstance(gate, RelayedGate)]

    def start(self) -> None:
        """Run all, and wait until all are ready.

        Raises:
            ClusterError: one ends, or is not ready in time.
        """
        self._ends.enter_context(self._balancer)
        for gate in self.each:
            self._ends.callback(gate.stop)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda gate: gate.start(), self.each))

    def stop(self) -> None:
        """End all, and what stands in front of them."""
        self._ends.close()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Hold all of them up."""
        with ExitStack() as ends:
            for gate in self.each:
                ends.enter_context(gate.frozen())
            yield

    def write_policies(self, files: Mapping[str, str]) -> None:
        """Let these be the policy files of all; return once all that run have them.

        Raises:
            ClusterError: one has not in time.
        """
        for gate in self.each:
            gate.write_policies(files)

    def take_up_certificate(self) -> None:
        """Return once all serve with what is in `certificates` now.

        Raises:
            ClusterError: one does not in time.
        """
        for gate in self.each:
            gate.take_up_certificate()

    def leaders(self) -> list[GateProcess]:
        """Those that run and keep ledgers, as they say themselves."""
        return [gate for gate in self.each if gate.runs and gate.readiness()["checks"]["leader-election"].get("leader")]

    def readiness(self) -> dict[str, Any]:
        """What the first one's `/readyz` says."""
        return self.each[0].readiness()

    def log(self) -> str:
        """Everything they have logged."""
        return "\n".join(gate.log() for gate in self.each)
