"""Suggestions for misspelled words: near words, but no far words and no members of one family."""

import pytest

from tallygate.policy.lint_pairs import lint_names
from tallygate.policy.parse import parse
from tallygate.policy.suggest import WELL_KNOWN_RESOURCES, find_nearest, format_suggestion, suggest_resource

FIELDS = (
    "wellFormedName",
    "wholeQuantity",
    "requestsEqualLimits",
    "perContainer",
    "perPod",
    "advertised",
    "schedulable",
)


@pytest.mark.parametrize(
    ("word", "suggestion"),
    [
        ("wholeQuantit", "wholeQuantity"),
        ("WholeQuantity", "wholeQuantity"),
        ("whole_quantity", "wholeQuantity"),
        ("perpod", "perPod"),
        ("perContainers", "perContainer"),
        ("requestEqualsLimit", "requestsEqualLimits"),
        ("schedule", "schedulable"),
        ("x", None),
        ("", None),
        ("somethingElse", None),
    ],
)
def test_the_nearest_word(word: str, suggestion: str | None) -> None:
    assert find_nearest(word, FIELDS) == suggestion
    assert format_suggestion(word, FIELDS) == (f'; did you mean "{suggestion}"?' if suggestion else "")


def test_an_empty_vocabulary_has_no_nearest_word() -> None:
    assert find_nearest("a", ()) is None


def test_a_huge_word_has_no_nearest_word() -> None:
    assert find_nearest("wholeQuantity" * 100_000, FIELDS) is None


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("gpu", "nvidia.com/gpu"),
        ("gpus", "nvidia.com/gpu"),
        ("GPU", "nvidia.com/gpu"),
        ("tpu", "google.com/tpu"),
        ("memmory", "memory"),
        ("Memory", "memory"),
        ("cpus", "cpu"),
        ("ephemeral_storage", "ephemeral-storage"),
        ("nvidia.com/gpus", "nvidia.com/gpu"),
        ("nvidai.com/gpu", "nvidia.com/gpu"),
        ("nvidia/gpu", "nvidia.com/gpu"),
        ("amd.com/gpus", "amd.com/gpu"),
        ("nvidia.com/gpu", None),
        ("nvidia.com/gpu.shared", None),
        ("example.com/dongle", None),
        ("intel.com/qat", None),
        ("intel.com/gpu", None),
        ("example.com/gpu", None),
        ("xilinx.com/fpga", None),
        ("bananas", None),
    ],
)
def test_the_suggested_resource(name: str, suggestion: str | None) -> None:
    assert suggest_resource(name) == suggestion


def test_a_well_known_name_has_no_suggestion() -> None:
    assert [name for name in WELL_KNOWN_RESOURCES if suggest_resource(name)] == []


def _cap(name: str, *counted: str) -> str:
    amounts = ", ".join(f"{each}: 1" for each in counted)
    head = "apiVersion: tallygate.dev/v1alpha1\nkind: NamespaceCap\n"
    return f"{head}metadata: {{name: {name}}}\nspec: {{hard: {{{amounts}}}}}\n"


def _list_suggestions(*caps: str) -> list[str]:
    parsed = parse([("a.yaml", "---\n".join(caps).encode())])
    assert parsed.findings == ()
    return [finding.message.partition("did you mean ")[2] for finding in lint_names(parsed.policies)]


def test_a_rare_spelling_of_a_frequent_name_is_reported() -> None:
    usual = _cap("a", "example.com/dongle"), _cap("b", "example.com/dongle")
    assert _list_suggestions(*usual, _cap("c", "example.com/Dongles")) == [
        '"example.com/dongle" instead of "example.com/Dongles"?'
    ]


def test_two_equally_frequent_spellings_are_not_reported() -> None:
    assert _list_suggestions(_cap("a", "example.com/seat"), _cap("b", "example.com/seats")) == []


def test_members_of_a_family_are_not_reported() -> None:
    names = [f"nvidia.com/mig-{slices}g.{memory}gb" for slices, memory in ((1, 5), (2, 10), (3, 20), (4, 20), (7, 40))]
    assert (
        _list_suggestions(
            _cap("a", *names), _cap("b", "nvidia.com/mig-1g.5gb", "example.com/seat-1", "example.com/seat-2")
        )
        == []
    )


def test_pods_and_limits_are_not_reported() -> None:
    assert _list_suggestions(_cap("a", "pods", "limits.memory", "requests.cpu")) == []
