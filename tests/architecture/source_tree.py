"""The Python modules of a folder, parsed once: their syntax trees, docstrings, comments, imports and line counts."""

import ast
import io
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class Module:
    """One module; `path` is relative to the root of the tree."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the syntax tree, as `ast.walk` yields them: most guards go through them."""
        return list(ast.walk(self.tree))

    @cached_property
    def name(self) -> str:
        """The dotted name by which it is imported; that of a package for its `__init__`."""
        return self.path.partition("/")[2].removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def package(self) -> str:
        """The folder of the module, relative to the root of the tree."""
        return self.path.rpartition("/")[0]

    @property
    def basename(self) -> str:
        """The name of the file without its ending."""
        return Path(self.path).stem

    @property
    def lines(self) -> int:
        """The number of lines."""
        return self.text.count("\n")

    @cached_property
    def docstrings(self) -> list[tuple[int, str, ast.AST]]:
        """Line, text and owner of each docstring, those of constants included."""
        found: list[tuple[int, str, ast.AST]] = []
        for node in self.nodes:
            body = getattr(node, "body", None)
            for number, statement in enumerate(body if isinstance(body, list) else ()):
                match statement:
                    case ast.Expr(ast.Constant(value=str(text))):
                        found.append((statement.lineno, text, statement if number else node))
        return found

    @cached_property
    def comments(self) -> list[tuple[int, str]]:
        """Line and text of each comment, with directives to linters."""
        if "#" not in self.text:
            return []
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]

    @cached_property
    def imports(self) -> set[str]:
        """Dotted names of all modules and members that are imported anywhere in the module."""
        names: set[str] = set()
        for node in self.nodes:
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module)
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
        return names

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Yield every function and method."""
        for node in self.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node

    def classes(self) -> Iterator[ast.ClassDef]:
        """Yield every class."""
        for node in self.nodes:
            if isinstance(node, ast.ClassDef):
                yield node


def read_tree(root: Path, folders: Sequence[str]) -> Iterator[Module]:
    """Yield the modules below the folders of a root, sorted by path."""
    for path in sorted(path for folder in folders for path in (root / folder).rglob("*.py")):
        yield Module(path.relative_to(root).as_posix(), path.read_text("utf-8"))
