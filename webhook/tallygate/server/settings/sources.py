"""The sources of settings: a file, the environment and flags. A later source overrides an earlier one."""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tallygate.documents.composer import compose_policies
from tallygate.documents.syntax_tree import Limits
from tallygate.documents.to_json import to_plain
from tallygate.errors import TallygateError
from tallygate.server.settings.table import CONFIG_VARIABLE, ENVIRONMENT_PREFIX, OPTIONS, REMOVED, Option, Settings

_MAX_FILE_BYTES = 1 << 20
_LIMITS = Limits(depth=10, nodes=1_000, expanded=1_000)
SERVICE_LINK = re.compile(
    r"TALLYGATE_(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?)"
)
"""Variables that the kubelet sets for a Service called `tallygate` or `tallygate-…` (kubelet/envvars, v1.36).

They are no settings.
"""


class SettingsError(TallygateError):
    """The settings are invalid; `errors` has every reason, each with its location."""

    def __init__(self, errors: Iterable[str]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(self.errors))


@dataclass(frozen=True, slots=True)
class _RawSetting:
    """A value as written, and its location."""

    name: str
    value: Any
    location: str


def load_settings(flags: Mapping[str, Any], environment: Mapping[str, str], config: Path | None = None) -> Settings:
    """Return the settings of a file, the environment and the flags; flags override variables, variables the file.

    Args:
        flags: setting name to value; a value of None or an empty tuple is a flag that was not given.
        environment: all variables of the process; only variables that begin with `TALLYGATE_` are used.
        config: a TOML or YAML file; without it the variable `TALLYGATE_CONFIG` may name one.

    Raises:
        SettingsError: if a source or a value is invalid; it has all errors.
    """
    errors: list[str] = []
    path = config or (Path(environment[CONFIG_VARIABLE]) if environment.get(CONFIG_VARIABLE) else None)
    raw_settings = [
        *(_read_file(path, errors) if path else ()),
        *_read_environment(environment, errors),
        *(
            _RawSetting(name, value, _find_option(name).flag)
            for name, value in flags.items()
            if value not in (None, ())
        ),
    ]
    values = _parse_values(raw_settings, errors)
    if errors:
        raise SettingsError(errors)
    return Settings(**values)


def _find_option(name: str) -> Option:
    return next(option for option in OPTIONS if option.name == name)


def _parse_values(raw_settings: Iterable[_RawSetting], errors: list[str]) -> dict[str, Any]:
    """Return the values by name, the last one of each; add an error for every invalid value, overridden or not."""
    values: dict[str, Any] = {}
    for setting in raw_settings:
        try:
            values[setting.name] = _find_option(setting.name).value_type.parse(setting.value)
        except ValueError as error:
            errors.append(f"{setting.location}: {error}")
    return values


def _format_unknown(location: str, name: str, names: Iterable[str], prefix: str = "") -> str:
    """Return the message about an unknown setting; compare names without the common prefix, or all would be similar."""
    if instead := REMOVED.get(name.removeprefix(prefix).lower()):
        return f"{location}: there is no setting {name} any more: {instead}"
    candidates = [name.removeprefix(prefix) for name in names]
    matches = difflib.get_close_matches(name.removeprefix(prefix), candidates, n=1)
    hint = f"; did you mean {prefix}{matches[0]}?" if matches else "; docs/reference/settings.md lists them all"
    return f"{location}: there is no setting {name}{hint}"


def _read_environment(environment: Mapping[str, str], errors: list[str]) -> list[_RawSetting]:
    names = {option.variable: option.name for option in OPTIONS}
    raw_settings = []
    for variable in sorted(environment):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable == CONFIG_VARIABLE:
            continue
        if variable in names:
            raw_settings.append(_RawSetting(names[variable], environment[variable], variable))
        elif not SERVICE_LINK.fullmatch(variable):
            errors.append(_format_unknown("environment", variable, [*names, CONFIG_VARIABLE], ENVIRONMENT_PREFIX))
    return raw_settings


def _read_file(path: Path, errors: list[str]) -> list[_RawSetting]:
    try:
        content = _parse_file(path)
    except (OSError, ValueError) as error:
        errors.append(f"{path}: {_format_error(error)}")
        return []
    if not isinstance(content, dict):
        errors.append(f"{path}: settings are written as `name: value` (YAML) or `name = value` (TOML)")
        return []
    names = [option.name for option in OPTIONS]
    errors.extend(_format_unknown(str(path), str(key), names) for key in content if key not in names)
    return [_RawSetting(key, value, f"{path}: {key}") for key, value in content.items() if key in names]


def _parse_file(path: Path) -> Any:
    with path.open("rb") as file:
        content = file.read(_MAX_FILE_BYTES + 1)
    if len(content) > _MAX_FILE_BYTES:
        raise ValueError("larger than 1 MiB; this is not a settings file")
    if path.suffix == ".toml":
        return tomllib.loads(content.decode())
    if path.suffix in {".yaml", ".yml", ".json"}:
        return _parse_yaml(content.decode("utf-8-sig"))
    raise ValueError("name it .toml, .yaml, .yml or .json, so that it is known how to read it")


def _parse_yaml(text: str) -> Any:
    documents, errors = compose_policies(text, _LIMITS)
    for error in errors:
        raise ValueError(f"line {error.position.line}, column {error.position.column}: {error.message}")
    if len(documents) > 1:
        raise ValueError(f"line {documents[1].position.line}: a second document; write all settings in one")
    return to_plain(documents[0]) if documents else None


def _format_error(error: BaseException) -> str:
    text = f"cannot be read: {error.strerror}" if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split()) or type(error).__name__
