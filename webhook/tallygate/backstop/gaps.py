"""The parts of policies that the compiled objects do not enforce."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Gap:
    """A check or limit of a policy that is enforced in part or not at all while no gate answers.

    `policy` is the kind and name as messages write them (`rule whole-gpus`, `cap gpus`). `subject` is the path of the
    check or limit below `spec`, such as `hard.nvidia.com/gpu` or `checks.advertised`. `reason` is one sentence.
    `is_looser` is true if an object enforces a part of it, and false if none does.
    """

    policy: str
    subject: str
    reason: str
    is_looser: bool
