"""The policies that a command works with: those it is given, or the shipped ones."""

from collections.abc import Sequence
from pathlib import Path

from webhook import policy
from webhook.cli.command import Misuse
from webhook.policy.load import read
from webhook.policy.model import PolicySet

SHIPPED = Path(policy.__file__).parent / "shipped"
"""The default set, which is in force where nobody names another. It is in the wheel."""


def usable(paths: Sequence[Path]) -> PolicySet:
    """The policies at these paths, or the shipped ones when there are none.

    Raises:
        Misuse: they say no usable set; every error is in the text, with its place.
    """
    parsed = read(paths or (SHIPPED,))
    if not parsed.usable:
        raise Misuse("\n".join(map(str, parsed.findings)))
    return parsed.policies
