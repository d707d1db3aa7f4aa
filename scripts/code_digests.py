"""Compute digests of what code computes, independent of how the code is written, for scripts/method_versions.py.

The digests exclude comments, formatting, docstrings, annotations, names of local variables and error texts; for Rust
code, also attributes, imports, visibility and tests. The code is only parsed: nothing is imported or run.
"""

import ast
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FOLLOWED = ("iolab.trial.", "iolab.lab.packets.", "iolab.lab.endpoints.", "iolab.units.")
"""Prefixes of modules whose definitions are followed where they are used; definitions of other modules count only by
name."""
SKIPPED = frozenset({"annotation", "ctx", "type_comment", "kind", "type_params"})
"""Fields of syntax nodes that do not affect the computation."""
RUST_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(\#*)".*?"\1|b?"(?:\\.|[^"\\])*"|'(?:\\.[^']*|[^'\\])'|'\w+|\w+|\S""", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Module:
    """The top-level definitions and the imports of a module."""

    defined: Mapping[str, ast.AST]
    """Name to the function, class or value."""
    imported: Mapping[str, tuple[str, str]]
    """Local name to the imported module and the name in that module; an empty name: the module itself."""


@dataclass(slots=True)
class Code:
    """The code of a source tree, parsed and digested once."""

    root: Path
    changed: Mapping[str, str] = field(default_factory=dict)
    """Texts that replace files, by path."""
    modules: dict[str, Module | None] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    """Key (module:name, or a path) to digest."""
    uses: dict[str, list[str]] = field(default_factory=dict)
    """Key to the keys that its code uses."""

    def behind(self, reference: str) -> dict[str, str]:
        """Return the digests of the code that a reference names and, unless it ends with !, of all used code.

        Raises:
            LookupError: the reference names no code.
        """
        if reference.endswith("!"):
            return {reference[:-1]: self._digest(reference[:-1])}
        found: dict[str, str] = {}
        waiting = [reference]
        while waiting:
            key = waiting.pop()
            if key not in found:
                found[key] = self._digest(key)
                waiting += self.uses.get(key, ())
        return found

    def _digest(self, key: str) -> str:
        if key not in self.digests:
            self.digests[key] = self._rust(key) if key.startswith("crates/") else self._python(key)
        return self.digests[key]

    def _python(self, key: str) -> str:
        module, _, name = key.partition(":")
        outer, _, inner = name.partition(".")
        known = self.module(module)
        node = known.defined.get(outer) if known is not None else None
        parent = node if isinstance(node, ast.ClassDef) else None
        if inner and parent is not None:
            node = next((one for one in parent.body if getattr(one, "name", "") == inner), None)
        if node is None:
            raise LookupError(f"{key} names nothing")
        writer = _Writer(self, module, parent.name if parent is not None else "", node)
        text = writer.write(node)
        self.uses[key] = writer.used
        return _short(text)

    def module(self, name: str) -> Module | None:
        """Return a module of the tree; None if no module has that name."""
        if name not in self.modules:
            path = f"python/{name.replace('.', '/')}"
            text = self._text(f"{path}.py") or self._text(f"{path}/__init__.py")
            self.modules[name] = None if text is None else _module(name, ast.parse(text))
        return self.modules[name]

    def _text(self, path: str) -> str | None:
        if path in self.changed:
            return self.changed[path]
        place = self.root / path
        return place.read_text(encoding="utf-8") if place.is_file() else None

    def _rust(self, key: str) -> str:
        path, _, function = key.partition(":")
        text = self._text(path)
        if text is None:
            raise LookupError(f"{path} is no file")
        tokens = _rust_tokens(text)
        if function:
            tokens = _rust_function(tokens, function)
            if not tokens:
                raise LookupError(f"{key} names nothing")
        return _short(" ".join(tokens))

    def resolve(self, module: str, name: str) -> str | None:
        """Return the key of the code to which a name in a module refers; None if this code is not followed."""
        for _ in range(8):  # imports of imports
            known = self.module(module) if f"{module}.".startswith(FOLLOWED) else None
            if known is None:
                return None
            if name in known.defined:
                return f"{module}:{name}"
            if name not in known.imported:
                return None
            module, name = known.imported[name]
        return None


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _module(module: str, tree: ast.Module) -> Module:
    defined: dict[str, ast.AST] = {}
    imported: dict[str, tuple[str, str]] = {}
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                defined[name] = node
            case ast.Assign(targets=targets, value=value):
                names = (one for target in targets for one in ast.walk(target) if isinstance(one, ast.Name))
                defined |= {one.id: value for one in names}
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                defined[name] = value
            case ast.ImportFrom(names=names):
                source = _source(module, node)
                imported |= {one.asname or one.name: (source, one.name) for one in names}
            case ast.Import(names=names):
                imported |= {one.asname or one.name: (one.name, "") for one in names}
            case _:
                pass
    return Module(defined, imported)


class _Writer:
    """Writes code as canonical text, with numbers instead of the names of local variables."""

    def __init__(self, code: Code, module: str, parent: str, node: ast.AST) -> None:
        self.used: list[str] = []
        self._code, self._module, self._parent = code, module, parent
        self._imports = _local_imports(module, node)
        self._locals = {name: f"v{at}" for at, name in enumerate(_bound(node))}

    def write(self, node: object) -> str:
        """Return a node and its descendants as text."""
        match node:
            case ast.Name() | ast.arg() | ast.Attribute():
                return self._named(node)
            case ast.FunctionDef() | ast.ClassDef():
                return self._definition(node)
            case ast.AnnAssign(target=target, value=value):
                return "" if value is None else self.write(ast.Assign([target], value))
            case ast.Raise():
                return "raise"
            case ast.Expr(value=ast.Constant(value=str())) | ast.Import() | ast.ImportFrom():
                return ""  # docstrings; imports are followed where they are used
            case ast.AST():
                return self._any(node)
            case list():
                return " ".join(filter(None, map(self.write, node)))
            case _:
                return repr(node)

    def _named(self, node: ast.Name | ast.arg | ast.Attribute) -> str:
        match node:
            case ast.Name(id=name):
                return self._locals.get(name) or self._global(name)
            case ast.arg(arg=name):
                return self._locals.get(name, name)
            case ast.Attribute(value=ast.Name(id="self"), attr=attribute) if self._parent:
                return self._of_self(attribute)
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name not in self._locals:
                self._note_of_module(name, attribute)
                return f"{self._global(name)}.{attribute}"
            case _:
                return self._any(node)

    def _any(self, node: ast.AST) -> str:
        parts = (
            f"{name}={self.write(value)}"
            for name, value in ast.iter_fields(node)
            if name not in SKIPPED and value is not None and value != []
        )
        return f"({type(node).__name__} {' '.join(parts)})"

    def _definition(self, node: ast.FunctionDef | ast.ClassDef) -> str:
        if isinstance(node, ast.FunctionDef):
            return f"(def {self.write(node.args)} {self.write(node.decorator_list)} {self.write(node.body)})"
        methods = [one for one in node.body if isinstance(one, ast.FunctionDef)]
        self.used += [f"{self._module}:{node.name}.{one.name}" for one in methods]
        rest = [one for one in node.body if one not in methods]
        return f"(class {self.write(node.bases)} {self.write(rest)})"

    def _of_self(self, attribute: str) -> str:
        known = self._code.module(self._module)
        parent = known.defined[self._parent] if known is not None else None
        methods = getattr(parent, "body", ())
        if any(isinstance(one, ast.FunctionDef) and one.name == attribute for one in methods):
            self.used.append(f"{self._module}:{self._parent}.{attribute}")
        return f"self.{attribute}"

    def _global(self, name: str) -> str:
        module, original = self._imports.get(name, (self._module, name))
        key = self._code.resolve(module, original) if original else None
        if key is not None:
            self.used.append(key)
            return key.rpartition(":")[2]
        known = self._code.module(self._module)
        return known.imported[name][1] or name if known is not None and name in known.imported else original

    def _note_of_module(self, name: str, attribute: str) -> None:
        """Record the code to which `module.attribute` refers, if the name is that of a module."""
        known = self._code.module(self._module)
        at = self._imports.get(name) or (known.imported.get(name) if known is not None else None)
        if at is not None and (key := self._code.resolve(".".join(filter(None, at)), attribute)) is not None:
            self.used.append(key)


def _bound(node: ast.AST) -> list[str]:
    """Return the names that a function binds, in the order of their first occurrence."""
    if not isinstance(node, ast.FunctionDef):
        return []
    found: dict[str, None] = {}
    for one in ast.walk(node):
        match one:
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                found[name] = None
            case ast.ExceptHandler(name=str(name)):
                found[name] = None
            case ast.FunctionDef(name=name) if one is not node:
                found[name] = None
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                found[name] = None
            case _:
                pass
    found.pop("self", None)
    return list(found)


def _local_imports(module: str, node: ast.AST) -> dict[str, tuple[str, str]]:
    inside = [one for one in ast.walk(node) if isinstance(one, ast.ImportFrom)]
    return {
        name.asname or name.name: (_source(module, one), name.name) for one in inside for name in one.names
    }


def _source(module: str, node: ast.ImportFrom) -> str:
    """Return the module from which names are imported; one dot means the package of the importing module."""
    package = module.split(".")[: -node.level] if node.level else []
    return ".".join([*package, *([node.module] if node.module else [])])


def _rust_tokens(text: str) -> list[str]:
    """Return the tokens of Rust code without comments, attributes, imports, visibility and tests."""
    tokens = [one for one in (match[0] for match in RUST_TOKEN.finditer(text)) if one[:2] not in ("//", "/*")]
    found: list[str] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token == "#" and tokens[at + 1 : at + 2] in (["["], ["!"]):
            end = _closing(tokens, tokens.index("[", at))
            is_test = tokens[at:end] == ["#", "[", "cfg", "(", "test", ")", "]"]
            at = _item_end(tokens, end) if is_test else end
        elif token == "use":
            at = tokens.index(";", at) + 1
        elif token == "pub":
            at = _closing(tokens, at + 1) if tokens[at + 1] == "(" else at + 1
        elif token == "," and at + 1 < len(tokens) and tokens[at + 1] in ")]}":
            at += 1
        else:
            found.append(token)
            at += 1
    return found


def _closing(tokens: Sequence[str], at: int) -> int:
    """Return the index after the bracket that closes the bracket at an index."""
    depth = 0
    for place in range(at, len(tokens)):
        depth += (tokens[place] in ("(", "[", "{")) - (tokens[place] in (")", "]", "}"))
        if depth == 0:
            return place + 1
    return len(tokens)


def _item_end(tokens: Sequence[str], at: int) -> int:
    """Return the index after the item that begins at an index: after the item's block, or its semicolon."""
    place = next((one for one in range(at, len(tokens)) if tokens[one] in ("{", ";")), len(tokens))
    return _closing(tokens, place) if tokens[place : place + 1] == ["{"] else place + 1


def _rust_function(tokens: Sequence[str], name: str) -> list[str]:
    at = next((at for at in range(len(tokens) - 1) if list(tokens[at : at + 2]) == ["fn", name]), None)
    return [] if at is None else list(tokens[at : _item_end(tokens, at)])
