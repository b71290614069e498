"""Where settings come from: a file, the environment, flags. What is said twice is taken from the last of these."""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from webhook.errors import TallygateError
from webhook.server.settings.table import CONFIG_VARIABLE, ENVIRONMENT_PREFIX, OPTIONS, Option, Settings

_LARGEST_FILE = 1 << 20
SERVICE_LINK = re.compile(
    r"TALLYGATE_(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?)"
)
"""What the kubelet sets for a Service called `tallygate` or `tallygate-…` (kubelet/envvars, v1.36): not ours."""


class SettingsError(TallygateError):
    """Settings cannot be used; `errors` says every reason, each with where it stands."""

    def __init__(self, errors: Iterable[str]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(self.errors))


@dataclass(frozen=True, slots=True)
class _Written:
    """A value as written, and where."""

    name: str
    value: Any
    where: str


def load_settings(flags: Mapping[str, Any], environment: Mapping[str, str], config: Path | None = None) -> Settings:
    """The settings of a file, the environment and the flags; flags win over the environment, and that over the file.

    Args:
        flags: setting name to value; a value of None or an empty tuple is a flag that was not given.
        environment: all variables of the process; only those that begin with `TALLYGATE_` are looked at.
        config: a TOML or YAML file; without it the variable `TALLYGATE_CONFIG` may name one.

    Raises:
        SettingsError: with everything that is wrong, at once.
    """
    errors: list[str] = []
    path = config or (Path(environment[CONFIG_VARIABLE]) if environment.get(CONFIG_VARIABLE) else None)
    written = [
        *(_from_file(path, errors) if path else ()),
        *_from_environment(environment, errors),
        *(_Written(name, value, _option(name).flag) for name, value in flags.items() if value not in (None, ())),
    ]
    values = _read(written, errors)
    if errors:
        raise SettingsError(errors)
    return Settings(**values)


def _option(name: str) -> Option:
    return next(option for option in OPTIONS if option.name == name)


def _read(written: Iterable[_Written], errors: list[str]) -> dict[str, Any]:
    """The values by name, the last one written for each; every one that cannot be read is an error, used or not."""
    values: dict[str, Any] = {}
    for item in written:
        try:
            values[item.name] = _option(item.name).kind.read(item.value)
        except ValueError as error:
            errors.append(f"{item.where}: {error}")
    return values


def _unknown(where: str, word: str, known: Iterable[str], prefix: str = "") -> str:
    """Names are compared without the prefix that all of them have, or any would resemble any."""
    bare = [name.removeprefix(prefix) for name in known]
    near = difflib.get_close_matches(word.removeprefix(prefix), bare, n=1)
    hint = f"; did you mean {prefix}{near[0]}?" if near else "; docs/settings.md lists them all"
    return f"{where}: there is no setting {word}{hint}"


def _from_environment(environment: Mapping[str, str], errors: list[str]) -> list[_Written]:
    names = {option.variable: option.name for option in OPTIONS}
    written = []
    for variable in sorted(environment):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable == CONFIG_VARIABLE:
            continue
        if variable in names:
            written.append(_Written(names[variable], environment[variable], variable))
        elif not SERVICE_LINK.fullmatch(variable):
            errors.append(_unknown("environment", variable, [*names, CONFIG_VARIABLE], ENVIRONMENT_PREFIX))
    return written


def _from_file(path: Path, errors: list[str]) -> list[_Written]:
    try:
        content = _parse(path)
    except (OSError, ValueError, YAMLError, RecursionError) as error:
        errors.append(f"{path}: {_one_line(error)}")
        return []
    if not isinstance(content, dict):
        errors.append(f"{path}: settings are written as `name: value` (YAML) or `name = value` (TOML)")
        return []
    names = [option.name for option in OPTIONS]
    errors.extend(_unknown(str(path), str(key), names) for key in content if key not in names)
    return [_Written(key, value, f"{path}: {key}") for key, value in content.items() if key in names]


def _parse(path: Path) -> Any:
    with path.open("rb") as file:
        content = file.read(_LARGEST_FILE + 1)
    if len(content) > _LARGEST_FILE:
        raise ValueError("larger than 1 MiB; this is no settings file")
    if path.suffix == ".toml":
        return tomllib.loads(content.decode())
    if path.suffix in {".yaml", ".yml", ".json"}:
        return YAML(typ="safe", pure=True).load(BytesIO(content))
    raise ValueError("name it .toml, .yaml, .yml or .json, so that it is known how to read it")


def _one_line(error: BaseException) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split()) or type(error).__name__
