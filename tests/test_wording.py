"""Recorded texts are compared by their facts, and each wording once."""

import pytest

from tests.wording import Recorded, Wordings, find_names, join_facts, list_facts

_NAMES = find_names(["metadata: {name: web, namespace: team-a}\nkind: Pod\n"])
_OVER = "pods.yaml:3:1  error  Pod team-a/web  cap gpus exceeded: requested 4 nvidia.com/gpu, free 3. Wait (TG201)"


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        (_OVER, "pods.yaml:3:1 error Pod team-a/web 4 nvidia.com/gpu 3 TG201"),
        ("gpus  team-a  -  4  counted", "gpus team-a - 4 counted"),
        ("  exceeded: hard", "exceeded: hard"),
        ("Pod team-a/web: not now: 1 of 2 fit", "Pod team-a/web not_now 1 2"),
        ("0/2 nodes are available: 1 Insufficient cpu.", "0/2 nodes are available: 1 Insufficient cpu."),
        (
            "a: 0/1 nodes are available: 1 cannot run; a node would fit (TG1)",
            "a: 0/1 nodes are available: 1 cannot run TG1",
        ),
        ("the pod web is allowed", "web allowed"),
    ],
)
def test_the_facts_of_a_line_are_codes_paths_amounts_names_and_verdicts(line: str, facts: str) -> None:
    assert " ".join(list_facts(line, _NAMES)) == facts


def test_the_facts_of_a_message_have_the_keys_of_limits_at_their_amounts() -> None:
    message = "requested 4 nvidia.com/gpu, used 0, hard none, and free for others"
    assert join_facts(message, _NAMES) == "requested=4 nvidia.com/gpu used=0 hard=none"


def test_a_wording_is_compared_by_the_first_case_that_has_it() -> None:
    first, second = Recorded("first", _OVER, _NAMES), Recorded("second", _OVER.replace("4", "5"), _NAMES)
    wordings = Wordings([first, second])
    for case, is_broken in ((first, True), (second, False)):
        found, wanted = wordings.reduce(case, case.text.replace("exceeded", "has no room"))
        assert (found != wanted) is is_broken


@pytest.mark.parametrize(("part", "other"), [("TG201", "TG202"), ("free 3", "free 2"), (":3:1", ":4:1"), ("web", "x")])
def test_every_case_compares_its_facts(part: str, other: str) -> None:
    first, second = Recorded("first", _OVER, _NAMES), Recorded("second", _OVER, _NAMES)
    found, wanted = Wordings([first, second]).reduce(second, _OVER.replace(part, other))
    assert found != wanted
