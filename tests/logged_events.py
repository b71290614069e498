"""Every event that the server can log, with its levels, as read from the source."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1] / "webhook"
_LEVELS: Final = frozenset({"debug", "info", "warning", "error", "critical", "exception"})
_LOGS: Final = frozenset({"log", "_log", "logger"})


@cache
def list_logged_events() -> Mapping[str, set[str]]:
    """Return the levels of each event."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(ROOT.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if not any(f"{log}." in source for log in _LOGS):
            continue
        for event, level in find_events(source, path.name):
            found[event].add(level)
    return found


def find_events(source: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield each event of a module with a level at which it is logged.

    Raises:
        AssertionError: if the name of an event is computed and cannot be found in the source.
    """
    tree = ast.parse(source)
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    for function in functions:
        aliases = _find_aliases(function)
        for call in _find_calls(function):
            event, levels = _parse_call(call, aliases)
            if event is None:
                continue
            texts = list(_find_texts(event, function, tree))
            assert texts, f"{name}:{call.lineno}: the name of an event is computed here; write it out"
            yield from ((text, level) for text in texts for level in levels)


def _find_calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (each for each in ast.walk(tree) if isinstance(each, ast.Call))


def _parse_call(call: ast.Call, aliases: Mapping[str, set[str]]) -> tuple[ast.expr | None, set[str]]:
    """Return event and levels of a call that logs, now or later; None and no levels of another call."""
    match call:
        case ast.Call(func=ast.Attribute() as method, args=[event, *_]) if level := _parse_level(method):
            return event, {level}
        case ast.Call(func=ast.Name("partial"), args=[ast.Attribute() as method, event, *_]) if level := _parse_level(
            method
        ):
            return event, {level}
        case ast.Call(func=ast.Name(name), args=[event, *_]) if name in aliases:
            return event, aliases[name]
    return None, set()


def _parse_level(function: ast.expr) -> str:
    """Return the level of `log.warning` and similar expressions, "" of any other."""
    match function:
        case ast.Attribute(value=ast.Name(log) | ast.Attribute(attr=log), attr=level) if log in _LOGS:
            return level if level in _LEVELS else ""
    return ""


def _find_aliases(function: ast.FunctionDef) -> Mapping[str, set[str]]:
    """Return the local names that refer to log methods, with their levels."""
    return {
        target.id: {level for branch in (chosen.body, chosen.orelse) if (level := _parse_level(branch))}
        for each in ast.walk(function)
        if isinstance(each, ast.Assign) and isinstance(chosen := each.value, ast.IfExp) and _parse_level(chosen.body)
        for target in each.targets
        if isinstance(target, ast.Name)
    }


def _find_texts(event: ast.expr, function: ast.FunctionDef, tree: ast.AST) -> Iterator[str]:
    """Yield the values of an expression: a text, both branches, or the arguments of the module's calls."""
    match event:
        case ast.Constant(str(text)):
            yield text
        case ast.IfExp(body=body, orelse=orelse):
            yield from _find_texts(body, function, tree)
            yield from _find_texts(orelse, function, tree)
        case ast.Name(name) if name in (names := [each.arg for each in function.args.args]):
            index = names.index(name) - (names[0] == "self")
            for call in _find_calls(tree):
                if isinstance(call.func, ast.Attribute) and call.func.attr == function.name:
                    yield from _find_texts(call.args[index], function, tree)
