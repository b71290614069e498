"""The run of a transcript on a site: the shipped policies active, its node as it was, and what is printed compared.

Stage directions: `policies NAME…` activates these policy files from there on (`shipped` stands for the shipped ones);
`without the gate` deletes its registration, `with the gate` restores it; `the gate watches the cluster` puts one that
does in its place, which knows from the start what exists; `reservations are settled` waits until that gate has
counted the pods that it has accepted.
"""

import difflib
import re
from pathlib import Path

from e2e.errors import ClusterError
from e2e.extra_gates import until_listed
from e2e.gates.process import GateProcess
from e2e.policy_files import SHIPPED_FILES, policy_files
from e2e.ports import NotHereError, Site
from e2e.registering import register, unregister
from e2e.suite_node import restore_node
from e2e.terminal import Terminal
from e2e.transcript import Transcript, parse, replay
from e2e.waiting import until

_SHIPPED = "shipped"
_BOUND = "2s"  # after a start nothing is reserved for a while, for which no case should wait
_WITHIN = 120.0  # seconds, until no reservation is left


def replay_case(site: Site, case: Path, namespace: str, folder: Path, *, record: bool) -> None:
    """Run a case; with `record`, rewrite a transcript that no longer matches.

    Raises:
        AssertionError: if the output differs from the transcript.
        ClusterError: if the site cannot be made ready for it.
    """
    transcript = parse(case.read_text())
    restore_node(site, namespace)
    site.gate.write_policies(SHIPPED_FILES)
    terminal, stage = Terminal(site, namespace, folder), _Stage(site, folder)
    try:
        now = replay(
            transcript, terminal.run, stage.direct, {"NODE": site.node, "NAMESPACE": namespace, "IMAGE": site.image}
        )
    finally:
        stage.restore()
        site.gate.write_policies(SHIPPED_FILES)
    if now == transcript:
        return
    if record:
        case.write_text(now.text())
    else:
        raise AssertionError("\n".join([str(case), *_difference(transcript, now)]))


def _difference(transcript: Transcript, now: Transcript) -> list[str]:
    texts = transcript.text().splitlines(), now.text().splitlines()
    return list(difflib.unified_diff(*texts, "expected", "printed", lineterm=""))


class _Stage:
    """The stage of a case: it carries out stage directions, and restores the site at the end."""

    def __init__(self, site: Site, folder: Path) -> None:
        self._site = site
        self._folder = folder
        self._gate = site.gate
        self._away = False

    def direct(self, direction: str) -> None:
        """Carry out a stage direction.

        Raises:
            ClusterError: if there is no such direction, or it cannot be followed.
            NotHereError: if this gate cannot be made to follow the cluster.
        """
        match direction.split():
            case ["policies", *names] if names:
                own = [name for name in names if name != _SHIPPED]
                shipped = SHIPPED_FILES if _SHIPPED in names else {}
                self._gate.write_policies(shipped | policy_files(own))
            case ["without", "the", "gate"]:
                unregister(self._site.cluster)
                self._away = True
            case ["with", "the", "gate"]:
                self.restore()
            case ["the", "gate", "watches", "the", "cluster"]:
                self._follow()
            case ["reservations", "are", "settled"]:
                until("no reservation is left", self._is_settled, _WITHIN)
            case _:
                raise ClusterError(f"no such stage direction: {direction}")

    def restore(self) -> None:
        """Register the gate of the site again if it is away, or another stands in its place."""
        if self._away or self._gate is not self._site.gate:
            register(self._site.cluster, self._site.gate)
            self._away = False
        if self._gate is not self._site.gate:
            self._gate.stop()
            self._gate = self._site.gate

    def _follow(self) -> None:
        if not isinstance(self._site.gate, GateProcess):
            raise NotHereError("this gate is no process, beside which another could be started")
        arguments = (
            "--cluster=kubeconfig",
            f"--kubeconfig={self._site.cluster.kubeconfig}",
            f"--in-flight-bound={_BOUND}",
        )
        gate = GateProcess(self._folder / "gate", arguments=arguments)
        self._gate = gate
        gate.start()
        until_listed(gate)
        register(self._site.cluster, gate)

    def _is_settled(self) -> bool:
        """Return whether no ledger of the gate that watches the cluster has a reservation (docs/operate/metrics.md)."""
        if not isinstance(self._gate, GateProcess):
            raise ClusterError("only a gate that watches the cluster counts its reservations")
        amounts = re.findall(r"^tallygate_cap_reservations_max\{.*\} (.+)$", self._gate.metrics(), re.MULTILINE)
        return bool(amounts) and not any(float(each) for each in amounts)
