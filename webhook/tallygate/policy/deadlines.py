"""The bounds of a rule on the time that pods may run."""

from typing import Annotated

from msgspec import Meta

from tallygate.policy.periods import RunTime
from tallygate.policy.written import Written


class DeadlineChecks(Written, frozen=True):
    """The checks of `activeDeadlineSeconds`: the longest time, None for any, and whether there must be one."""

    max: (
        Annotated[
            RunTime,
            Meta(
                title="Longest time",
                examples=["24h", "1h30m"],
                extra_json_schema={"type": "string", "format": "run-time", "maxLength": 64},
            ),
        ]
        | None
    ) = None
    """The longest time: whole hours, minutes and seconds, up to 720h. Left out: any time."""
    required: Annotated[bool, Meta(examples=[False])] = True
    """Whether a pod without a deadline is a problem. false: such a pod may run for ever."""
