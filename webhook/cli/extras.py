"""Optional dependencies: the extra of the distribution that has a missing module."""

import re

_REQUIREMENT = re.compile(r"""^([\w.-]+).*;\s*extra\s*==\s*['"]([\w-]+)['"]""")


def describe_missing_module(command: str, error: ModuleNotFoundError) -> str | None:
    """Return the message that names the extra to install for a command; None if no extra has the module."""
    from importlib.metadata import PackageNotFoundError, requires  # noqa: PLC0415  its import is slow

    module = (error.name or "").partition(".")[0]
    try:
        requirements = requires("tallygate") or []
    except PackageNotFoundError:
        return None
    for requirement in requirements:
        found = _REQUIREMENT.match(requirement)
        if found and found[1].replace("-", "_") == module:
            return f"`{command}` needs {module} here, and it is not installed: pip install 'tallygate[{found[2]}]'"
    return None
