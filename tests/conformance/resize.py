"""Resizes: the requests of a pod that is being resized, as the scheduler of Kubernetes 1.37 counts them."""

from tallygate.accounting.amounts import Amounts, round_up_to_unit
from tallygate.accounting.node_fit import select_scheduler_resources
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.resized_requests import compute_resized_amounts
from tallygate.objects.core import Pod
from tests.conformance.case import Case, Outcome
from tests.conformance.typed_objects import decode_object


def compare(case: Case) -> Outcome:
    """Compare the requests of each resource, in the scheduler's integers."""
    ours = compute_resized_amounts(decode_object(case["pod"], Pod)).requests
    quantities = {name: Quantity.from_json(f'"{text}"'.encode()) for name, text in case["answer"].items()}
    theirs = select_scheduler_resources(
        Amounts({name: round_up_to_unit(name, each) for name, each in quantities.items()})
    )
    return Outcome(
        tuple(
            f"{name}: Kubernetes {theirs.get(name)}, tallygate {ours.get(name)}"
            for name in sorted(theirs.keys() | ours.keys())
            if theirs.get(name) != ours.get(name)
        )
    )
