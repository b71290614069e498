"""Edits by position: each line of the text that has no old name stays as it is, with its comments."""

import pytest

from tallygate.cli.migrate.old_name_uses import MigrationStep
from tallygate.cli.migrate.renames import Renames
from tallygate.cli.migrate.text_edits import TextEditError, edit_text

OLD = "pod.alpha.kubernetes.io/opaque-int-resource-bananas"
NEW = "example.com/bananas"
_RENAMES = Renames("example.com")
_QUOTA = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec:\n"
_RULE = "apiVersion: tallygate.dev/v1alpha1\nkind: ResourceRule\nmetadata: {name: r}\nspec:\n"
_NODE = '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {\n'


def _edit(text: str, step: MigrationStep) -> str:
    return edit_text(text.replace("OLD", OLD), step, _RENAMES.replace).replace(OLD, "OLD").replace(NEW, "NEW")


@pytest.mark.parametrize(
    ("text", "first", "both", "last", "new"),
    [
        pytest.param(
            f"{_QUOTA}  hard:\n    # of all\n    requests.OLD: 8  # eight\n    pods: 3\n",
            MigrationStep.ACCEPT,
            f"{_QUOTA}  hard:\n    # of all\n    requests.OLD: 8  # eight\n    requests.NEW: 8  # eight\n    pods: 3\n",
            MigrationStep.WITHDRAW,
            f"{_QUOTA}  hard:\n    # of all\n    requests.NEW: 8  # eight\n    pods: 3\n",
            id="a key on a line of its own, with comments",
        ),
        pytest.param(
            f"{_QUOTA}  hard: {{pods: 3, 'requests.OLD': \"8\"}} # x\n",
            MigrationStep.ACCEPT,
            f"{_QUOTA}  hard: {{pods: 3, 'requests.OLD': \"8\", 'requests.NEW': \"8\"}} # x\n",
            MigrationStep.WITHDRAW,
            f"{_QUOTA}  hard: {{pods: 3, 'requests.NEW': \"8\"}} # x\n",
            id="a quoted key in braces",
        ),
        pytest.param(
            f"{_RULE}  resources:\n  - OLD\n  - '!OLD'   # not\n  - b.example.com/*\n",
            MigrationStep.ACCEPT,
            f"{_RULE}  resources:\n  - OLD\n  - NEW\n  - '!OLD'   # not\n  - '!NEW'   # not\n  - b.example.com/*\n",
            MigrationStep.WITHDRAW,
            f"{_RULE}  resources:\n  - NEW\n  - '!NEW'   # not\n  - b.example.com/*\n",
            id="items on lines of their own",
        ),
        pytest.param(
            f"{_RULE}  resources: [OLD, b.example.com/x]\n",
            MigrationStep.ACCEPT,
            f"{_RULE}  resources: [OLD, NEW, b.example.com/x]\n",
            MigrationStep.WITHDRAW,
            f"{_RULE}  resources: [NEW, b.example.com/x]\n",
            id="items in brackets",
        ),
        pytest.param(
            f'{_NODE}  "cpu": "1",\n  "OLD": "4"\n}}}}}}\n',
            MigrationStep.ADVERTISE,
            f'{_NODE}  "cpu": "1",\n  "OLD": "4", "NEW": "4"\n}}}}}}\n',
            MigrationStep.WITHDRAW,
            f'{_NODE}  "cpu": "1",\n  "NEW": "4"\n}}}}}}\n',
            id="JSON",
        ),
        pytest.param(
            f"{_QUOTA}  hard:\r\n    requests.OLD: 8\r\n",
            MigrationStep.ACCEPT,
            f"{_QUOTA}  hard:\r\n    requests.OLD: 8\r\n    requests.NEW: 8\r\n",
            MigrationStep.WITHDRAW,
            f"{_QUOTA}  hard:\r\n    requests.NEW: 8\r\n",
            id="lines of Windows",
        ),
        pytest.param(
            f"{_QUOTA}  hard:\n    requests.OLD: 8",
            MigrationStep.ACCEPT,
            f"{_QUOTA}  hard:\n    requests.OLD: 8\n    requests.NEW: 8",
            MigrationStep.WITHDRAW,
            f"{_QUOTA}  hard:\n    requests.NEW: 8",
            id="no end of the last line",
        ),
    ],
)
def test_the_new_name_is_added_beside_the_old_one_which_is_removed_later(
    text: str, first: MigrationStep, both: str, last: MigrationStep, new: str
) -> None:
    assert _edit(text, first) == both
    assert _edit(both.replace("NEW", NEW), last) == new
    assert all(_edit(text, step) == text for step in MigrationStep if step not in {first, last})


def test_what_is_renamed_at_once_keeps_its_line() -> None:
    text = "kind: LimitRange\napiVersion: v1\nspec:\n  limits:\n  - max: {OLD: 3} # x\n    type: Pod\n"
    assert _edit(text, MigrationStep.REQUEST_NEW) == text.replace("OLD", "NEW")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        pytest.param(f"{_QUOTA}  hard:\n    requests.OLD: &a 8\n", (6, 44), id="an anchor"),
        pytest.param(f"{_QUOTA}  hard:\n    requests.OLD: !!int 8\n", (6, 44), id="a tag"),
        pytest.param(f"{_QUOTA}  hard:\n    <<: {{requests.OLD: 8}}\n", (5, 3), id="a merge key"),
        pytest.param(f"{_QUOTA}  hard:\n    ? requests.OLD\n    : 8\n", (6, 7), id="a question mark"),
    ],
)
def test_a_layout_that_is_not_known_is_an_error_at_its_place(text: str, where: tuple[int, int]) -> None:
    with pytest.raises(TextEditError) as raised:
        _edit(text, MigrationStep.ACCEPT)
    assert raised.value.position.line == where[0]
