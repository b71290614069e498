"""The command line: one module a command, and `first_run`, which `make run` drives.

The rule of this room: commands read arguments and files, ask the rooms below, and print; they judge nothing themselves.
Exit codes: 0 clean, 1 findings, 2 misuse (arguments, unreadable files, broken policies), 70 a fault of tallygate.
"""

from webhook.cli.app import main

__all__ = ["main"]
