"""Several gates behind one address, with one certificate and the same policies."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from e2e.gates.process import GateProcess
from e2e.gates.relay import PEERS_NAME, RelayedGate
from e2e.gates.running import HERE, LOOPBACK
from e2e.tcp_proxy import TcpProxy
from tallygate.admission.webhook_configuration import UrlTarget
from tallygate_certs.certificate_names import parse_names
from tallygate_certs.renewal import issue

Front = Callable[[Sequence[GateProcess]], TcpProxy]
"""Makes the proxy that passes connections on to these gates."""


class Replicas:
    """A number of gate processes, called as one gate; each of `each` may be killed, frozen and started again."""

    def __init__(  # noqa: PLR0913  # the parts of a setup, each by its name
        self,
        folder: Path,
        count: int,
        arguments: Sequence[str],
        front: Front | None = None,
        *,
        own_arguments: Sequence[Sequence[str]] = (),
        made: type[GateProcess] = GateProcess,
    ) -> None:
        """Prepare them; `arguments` are further ones of each command line, `front` makes the proxy in front.

        `own_arguments` has those of each one, `made` is their class. The relay of a `RelayedGate` reaches the others
        through the proxy in front of all.
        """
        self.certificates = folder / "certs"
        issue(self.certificates, parse_names([HERE, LOOPBACK, PEERS_NAME]), datetime.now(UTC))
        self.each = [
            made(folder / f"gate-{at}", arguments=(*arguments, *own), certificates=self.certificates)
            for at, own in enumerate(own_arguments or [()] * count)
        ]
        self._balancer = front(self.each) if front else TcpProxy(*(gate.port for gate in self.each))
        for gate in self.relayed:
            gate.others = f"{LOOPBACK}:{self._balancer.port}"
        self.reached = UrlTarget(f"https://{HERE}:{self._balancer.port}")
        self._ends = ExitStack()

    @property
    def relayed(self) -> list[RelayedGate]:
        """The gates that have a relay."""
        return [gate for gate in self.each if isinstance(gate, RelayedGate)]

    def start(self) -> None:
        """Run all, and wait until all are ready.

        Raises:
            ClusterError: if one ends, or is not ready in time.
        """
        self._ends.enter_context(self._balancer)
        for gate in self.each:
            self._ends.callback(gate.stop)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda gate: gate.start(), self.each))

    def stop(self) -> None:
        """Stop all, and the proxy in front of them."""
        self._ends.close()

    @contextmanager
    def freeze(self) -> Iterator[None]:
        """Freeze all of them."""
        with ExitStack() as ends:
            for gate in self.each:
                ends.enter_context(gate.freeze())
            yield

    def write_policies(self, files: Mapping[str, str]) -> None:
        """Write these policy files for all; return once all that run have loaded them.

        Raises:
            ClusterError: if one takes too long.
        """
        for gate in self.each:
            gate.write_policies(files)

    def reload_certificate(self) -> None:
        """Return once all serve with the files that are in `certificates` now.

        Raises:
            ClusterError: if one takes too long.
        """
        for gate in self.each:
            gate.reload_certificate()

    def leaders(self) -> list[GateProcess]:
        """Return the gates that run and lead, as they report themselves."""
        return [gate for gate in self.each if gate.runs and gate.readiness()["checks"]["leader-election"].get("leader")]

    def readiness(self) -> dict[str, Any]:
        """Return the content of the first one's `/readyz`."""
        return self.each[0].readiness()

    def log(self) -> str:
        """Return the logs of all."""
        return "\n".join(gate.log() for gate in self.each)
