"""Policy files: what a rule and a cap are, and how text becomes them.

The rule of this room: `model`, `schema`, `parse`, `resolve` and `lint` are pure; only `load` and `store` touch files,
and the last good set stays in force until a whole new one is good. A mistake in a policy file is a `Finding`, never an
exception.
"""
