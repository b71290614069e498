"""The policies that a command works with: those it is given, or the shipped ones."""

from collections.abc import Sequence
from pathlib import Path

from webhook.cli.command import UsageError
from webhook.policy.load import SHIPPED_POLICIES, load_policies
from webhook.policy.model import PolicySet


def load_usable_policies(paths: Sequence[Path]) -> PolicySet:
    """The policies at these paths, or the shipped ones when there are none.

    Raises:
        Misuse: they say no usable set; every error is in the text, with its place.
    """
    parsed = load_policies(paths or (SHIPPED_POLICIES,))
    if not parsed.is_usable:
        raise UsageError("\n".join(map(str, parsed.findings)))
    return parsed.policies
