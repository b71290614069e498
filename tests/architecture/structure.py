"""Guards of the structure: names unique in their package, modules and functions of a size, imports at the top."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from tests.architecture.source_tree import Module

_MIN_LINES_OF_ONE_IMPORTER = 60
_MAX_MODULE_LINES = 800
_MAX_FUNCTION_LINES = 50
_RUN_BY_NAME = {"webhook/tallygate/server/https/certificate_trial.py"}  # started with -m, so that nothing imports it
_LAZY_IMPORTS = {
    "webhook/tallygate/cli/": "tests/cli/test_command.py has the modules that a command does not load",
    "webhook/tallygate/answers/node_check.py": "tests/cli/test_command.py: only a state with columns loads numpy",
    "webhook/tallygate/server/serve.py": "tests/cli/test_command.py: a gate without a cluster loads no client",
    "webhook/tallygate/cluster/": "tests/cli/test_command.py: only a state with columns loads numpy",
    "webhook/tallygate/state/kubernetes/limit_record_store.py": "a snapshot has records: its reader loads no client",
    "webhook/tallygate/state/kubernetes/stored_leases.py": "a snapshot has records: its reader loads no client",
    "webhook/tallygate/kube/config.py": "tests/cli/test_command.py: the official client takes 0.7 s to load",
}


def find_shared_classes(modules: Sequence[Module]) -> list[str]:
    """Return the public classes whose name another public class of the same package has as well."""
    return _find_shared(
        ((module.package, statement.name), f"{module.path}:{statement.lineno}")
        for module in modules
        for statement in module.tree.body
        if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_")
    )


def find_undocumented_functions(modules: Sequence[Module]) -> list[str]:
    """Return the public functions that another package imports, and methods of ports, that have no docstring."""
    used = {name for module in modules for name in _names_of_other_packages(module)}
    return [
        f"{module.path}:{function.lineno}: {function.name}"
        for module in modules
        for statement in module.tree.body
        for function in _documented_functions(statement, module, used)
        if not function.name.startswith("_") and ast.get_docstring(function) is None
    ]


def _names_of_other_packages(module: Module) -> set[str]:
    """Return the dotted names that a module imports from other packages, with the attributes that it takes of them."""
    package = module.name if module.basename == "__init__" else module.name.rpartition(".")[0]
    local = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in module.nodes
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if node.module != package and node.module.rpartition(".")[0] != package
    }
    attributes = {
        f"{local[node.value.id]}.{node.attr}"
        for node in module.nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in local
    }
    return {*local.values(), *attributes}


def _documented_functions(statement: ast.stmt, module: Module, used: set[str]) -> Iterator[ast.FunctionDef]:
    if isinstance(statement, ast.FunctionDef) and f"{module.name}.{statement.name}" in used:
        yield statement
    elif (
        isinstance(statement, ast.ClassDef)
        and not statement.name.startswith("_")
        and any(ast.unparse(base) == "Protocol" for base in statement.bases)
    ):
        yield from (member for member in statement.body if isinstance(member, ast.FunctionDef))


def find_small_modules(modules: Sequence[Module]) -> list[str]:
    """Return the modules under 60 lines that one module alone imports: they belong to their importer."""
    importers: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for name in module.imports:
            importers[name].add(module.name)
    return [
        f"{module.path}: {module.lines} lines, imported by {', '.join(importers[module.name])} alone"
        for module in modules
        if module.lines < _MIN_LINES_OF_ONE_IMPORTER
        and module.basename not in {"__init__", "__main__"}
        and module.path not in _RUN_BY_NAME
        and len(importers[module.name] - {module.name}) == 1
    ]


def find_long_modules(modules: Sequence[Module]) -> list[str]:
    """Return the modules of more than 800 lines."""
    return [f"{module.path}: {module.lines} lines" for module in modules if module.lines > _MAX_MODULE_LINES]


def find_long_functions(modules: Sequence[Module]) -> list[str]:
    """Return the functions of more than 50 lines, decorators left out."""
    return [
        f"{module.path}:{function.lineno}: {function.name} has {lines} lines"
        for module in modules
        for function in module.functions()
        if (lines := (function.end_lineno or 0) - function.body[0].lineno + 1) > _MAX_FUNCTION_LINES
    ]


def find_small_packages(modules: Sequence[Module]) -> list[str]:
    """Return the packages with fewer than two modules beside their `__init__`."""
    folders: dict[str, int] = defaultdict(int)
    for module in modules:
        folder, _, _ = module.path.rpartition("/")
        folders[folder] += module.basename != "__init__"
    parents = {folder.rpartition("/")[0] for folder in folders}
    return [f"{folder}: {count} modules" for folder, count in folders.items() if count < 2 and folder not in parents]


def find_lazy_imports(modules: Sequence[Module]) -> list[str]:
    """Return the imports within a function or behind `TYPE_CHECKING`, but for those that keep the start fast."""
    return [
        f"{module.path}:{line}"
        for module in modules
        if not module.path.startswith(tuple(_LAZY_IMPORTS))
        for line in _lazy_lines(module)
    ]


def _lazy_lines(module: Module) -> Iterator[int]:
    has_inner = any(isinstance(node, ast.Import | ast.ImportFrom) and node.col_offset for node in module.nodes)
    for function in module.functions() if has_inner else ():
        for node in ast.walk(function):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield node.lineno
    for node in module.nodes:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test) and _imports(node):
            yield node.lineno


def _imports(node: ast.If) -> bool:
    return any(isinstance(inner, ast.Import | ast.ImportFrom) for inner in ast.walk(node))


def _find_shared(named_places: Iterable[tuple[tuple[str, str], str]]) -> list[str]:
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for key, place in named_places:
        places[key].append(place)
    return [f"{name}: {', '.join(each)}" for (_, name), each in sorted(places.items()) if len(each) > 1]
