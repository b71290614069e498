"""Every event that the server can log, with its levels: found in the source, where each is written out."""

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
def logged() -> Mapping[str, set[str]]:
    """The levels of each event."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(ROOT.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if not any(f"{log}." in source for log in _LOGS):
            continue
        for event, level in events_of(source, path.name):
            found[event].add(level)
    return found


def events_of(source: str, name: str) -> Iterator[tuple[str, str]]:
    """Each event of a module, and a level at which it is logged.

    Raises:
        AssertionError: an event is put together, so that nobody can find it: write it out.
    """
    tree = ast.parse(source)
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    for function in functions:
        louds = _louds(function)
        for call in _calls(function):
            event, levels = _asked(call, louds)
            if event is None:
                continue
            texts = list(_texts(event, function, tree))
            assert texts, f"{name}:{call.lineno}: the name of an event is put together here; write it out"
            yield from ((text, level) for text in texts for level in levels)


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (each for each in ast.walk(tree) if isinstance(each, ast.Call))


def _asked(call: ast.Call, louds: Mapping[str, set[str]]) -> tuple[ast.expr | None, set[str]]:
    """The event of a call that logs, now or later, and at which levels; none of another call."""
    match call:
        case ast.Call(func=ast.Attribute() as way, args=[event, *_]) if level := _level(way):
            return event, {level}
        case ast.Call(func=ast.Name("partial"), args=[ast.Attribute() as way, event, *_]) if level := _level(way):
            return event, {level}
        case ast.Call(func=ast.Name(name), args=[event, *_]) if name in louds:
            return event, louds[name]
    return None, set()


def _level(function: ast.expr) -> str:
    """The level of `log.warning` and its like; empty of anything else."""
    match function:
        case ast.Attribute(value=ast.Name(log) | ast.Attribute(attr=log), attr=level) if log in _LOGS:
            return level if level in _LEVELS else ""
    return ""


def _louds(function: ast.FunctionDef) -> Mapping[str, set[str]]:
    """Names of the function that stand for the one or the other level."""
    return {
        target.id: {level for branch in (chosen.body, chosen.orelse) if (level := _level(branch))}
        for each in ast.walk(function)
        if isinstance(each, ast.Assign) and isinstance(chosen := each.value, ast.IfExp) and _level(chosen.body)
        for target in each.targets
        if isinstance(target, ast.Name)
    }


def _texts(event: ast.expr, function: ast.FunctionDef, tree: ast.AST) -> Iterator[str]:
    """What an expression can be: a text, the one or the other, or what the module's own calls give for a parameter."""
    match event:
        case ast.Constant(str(text)):
            yield text
        case ast.IfExp(body=body, orelse=orelse):
            yield from _texts(body, function, tree)
            yield from _texts(orelse, function, tree)
        case ast.Name(name) if name in (names := [each.arg for each in function.args.args]):
            place = names.index(name) - (names[0] == "self")
            for call in _calls(tree):
                if isinstance(call.func, ast.Attribute) and call.func.attr == function.name:
                    yield from _texts(call.args[place], function, tree)
