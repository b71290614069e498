"""Playing a sequence: each step is done in its world, and put beside what was expected of it."""

from dataclasses import dataclass

from webhook.cli.sequences.api_server import Request
from webhook.cli.sequences.compare import Difference, differences
from webhook.cli.sequences.controllers import with_work
from webhook.cli.sequences.model import (
    Action,
    Body,
    Create,
    Delete,
    End,
    Label,
    Named,
    Resize,
    Scale,
    Sequence,
    Step,
    Update,
    Wait,
)
from webhook.cli.sequences.outcome import Outcome, refused
from webhook.cli.sequences.store import CLUSTER_SCOPED, Key
from webhook.cli.sequences.world import Account, World


@dataclass(frozen=True, slots=True)
class Done:
    """One step: what came of it, the ledgers then, and where that differs from what was expected."""

    number: int
    step: Step
    outcome: Outcome
    accounts: tuple[Account, ...]
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class Played:
    """A sequence as far as it went: to its end, or to the first step that differs."""

    sequence: Sequence
    done: tuple[Done, ...]

    @property
    def failed(self) -> Done | None:
        """The step that differs, if one does."""
        last = self.done[-1]
        return last if last.differences else None


def play(sequence: Sequence) -> Played:
    """Play it from the start, in a world of its own."""
    world, done = World(sequence), list[Done]()
    for number, step in enumerate(sequence.steps, 1):
        outcome = Player(world, step).outcome()
        accounts = tuple(world.accounts())
        done.append(Done(number, step, outcome, accounts, tuple(differences(step.expected, outcome, accounts))))
        if done[-1].differences:
            break
    return Played(sequence, tuple(done))


class Player:
    """Does one step in a world."""

    def __init__(self, world: World, step: Step) -> None:
        self.world = world
        self.step = step

    def outcome(self) -> Outcome:
        """What came of it, and of what controllers did then."""
        action = self.step.action
        if isinstance(action, Wait):
            return with_work(Outcome(), self.world.wait(action.seconds))
        outcome = self._done(action)
        return outcome if self.step.dry_run else with_work(outcome, self.world.controllers.work())

    def _done(self, action: Action) -> Outcome:
        match action:
            case Create():
                return self.world.api.create(action.body, self._request())
            case Update():
                return self.world.api.update(action.body, self._request())
            case Resize() | Scale() | Delete() | End() | Label():
                return self._changed(action)
            case Wait():
                return Outcome()

    def _changed(self, action: Resize | Scale | Delete | End | Label) -> Outcome:
        """What is done to an object that is stored."""
        key = self._key(action.target)
        found = self.world.store.find(key)
        if found is None:
            return refused(f"{key} not found")
        match action:
            case Resize():
                return self._resized(action, found)
            case Label():
                return self._labelled(action, found)
            case Scale():
                found["spec"] = {**(found.get("spec") or {}), "replicas": action.replicas}
            case End():
                found["status"] = {**(found.get("status") or {}), "phase": action.phase}
            case Delete():
                return self._deleted(key)
        # Neither scaling nor a pod's status passes the gate (webhook.admission.registration).
        if not self.step.dry_run:
            self.world.store.put(key, found)
        return Outcome()

    def _deleted(self, key: Key) -> Outcome:
        if not self.step.dry_run:
            self.world.store.remove(key)
        return Outcome()

    def _resized(self, action: Resize, pod: Body) -> Outcome:
        containers = (pod.get("spec") or {}).get("containers") or []
        named = [each for each in containers if each.get("name") == action.container or not action.container]
        if not named:
            return refused(f"{action.target} has no container {action.container}")
        resources = dict(named[0].get("resources") or {})
        for field, changes in (("requests", action.requests), ("limits", action.limits)):
            if changes:
                resources[field] = {**(resources.get(field) or {}), **changes}
        named[0]["resources"] = resources
        return self.world.api.update(pod, self._request("resize"))

    def _labelled(self, action: Label, found: Body) -> Outcome:
        labels = {**(found["metadata"].get("labels") or {}), **action.labels}
        found["metadata"]["labels"] = {key: value for key, value in labels.items() if value is not None}
        return self.world.api.update(found, self._request())

    def _key(self, target: Named) -> Key:
        return Key(target.kind, "" if target.kind in CLUSTER_SCOPED else self.step.namespace, target.name)

    def _request(self, subresource: str = "") -> Request:
        return Request(self.step.user, self.step.namespace, self.step.dry_run, subresource)
