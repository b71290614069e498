"""After any change of the files the last good set is active, and the status describes it."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallygate.policy.store import PolicyError, PolicyStatus, PolicyStore
from tests.effort import examples

HEAD = "apiVersion: tallygate.dev/v1alpha1\nkind: ResourceRule\n"
GOOD = st.sampled_from("abcd").map(
    lambda name: f"{HEAD}metadata: {{name: {name}}}\nspec: {{resources: [{name}.example/x]}}\n"
)
BROKEN = st.sampled_from(
    [
        "x: [",
        "kind: Nothing\n",
        "\0",
        f"{HEAD}metadata: {{name: a}}\nspec: {{}}\n",
        f'{HEAD}metadata: {{name: a}}\nspec: {{resources: ["!a.b/c"]}}\n',
        "[" * 1_000,
    ]
)


def _is_good(text: str) -> bool:
    return "resources: [" in text and "!" not in text


@given(GOOD, st.lists(GOOD | BROKEN | st.none(), max_size=8))
@settings(max_examples=examples(40))
def test_the_last_good_set_is_active_after_every_change(first: str, versions: list[str | None]) -> None:
    """Apply versions of a file; None deletes it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.yaml"
        path.write_text(first)
        statuses: list[PolicyStatus] = []
        store = PolicyStore([path], on_change=statuses.append)
        good = first
        for version in versions:
            if version is None:
                path.unlink(missing_ok=True)
            else:
                path.write_text(version)
            status = store.reload()
            if version is not None and _is_good(version):
                good = version
                assert status.rejected_findings == ()
            else:
                assert status.rejected_findings
            assert f"name: {store.get_policies().rules[0].name}}}" in good
            assert store.get_policies().digest == status.digest == store.get_status().digest
            assert status.generation == 1 + sum(1 for each in statuses if not each.rejected_findings)
        assert store.get_status().rejected_count == sum(1 for each in statuses if each.rejected_findings)


@given(GOOD | BROKEN)
@settings(max_examples=examples(20))
def test_a_store_starts_only_with_a_good_set(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.yaml"
        path.write_text(text)
        if not _is_good(text):
            with pytest.raises(PolicyError) as caught:
                PolicyStore([path])
            assert caught.value.findings
        else:
            assert PolicyStore([path]).get_status().generation == 1
