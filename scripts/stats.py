"""Print statistics of a code base, by default of this checkout: `scripts/stats.py [CHECKOUT]`.

The program reads only the syntax trees: nothing is imported, built or run, so it can count a checkout of any age.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

SMALL_LINES = 60
"""Maximum length of a small module."""
SKIPPED = frozenset({"target", "build", ".venv", "__pycache__", "runs", "node_modules"})
"""Folders that contain no hand-written files."""
DISK_PROGRAMS = frozenset({"bonnie++", "fio", "flush-check", "hdparm", "thput-fsys"})
"""Names of disk programs in the experiment language. A module that contains such a name as a literal distinguishes
programs."""
ETHERNET_HEADER_BYTES = 14
RUST_TESTS = "#[cfg(test)]"


@dataclass(frozen=True)
class Module:
    """A Python module: its text and its syntax tree."""

    name: str
    """Name with dots, as in an import; for the `__init__` module of a package, the package name."""
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree."""
        return list(ast.walk(self.tree))

    @cached_property
    def lines(self) -> int:
        """All lines, including blank lines."""
        return self.text.count("\n")

    @cached_property
    def kinds(self) -> Counter[str]:
        """Number of blank, docstring, import, comment and code lines; each line counts once."""
        kind = {
            number: "blank" if not line.strip() else "comment" if line.lstrip().startswith("#") else "code"
            for number, line in enumerate(self.text.splitlines(), 1)
        }
        for node in self.nodes:
            for number in range(getattr(node, "lineno", 1), (getattr(node, "end_lineno", 0) or 0) + 1):
                if is_docstring(node):
                    kind[number] = "docstring"
                elif isinstance(node, ast.Import | ast.ImportFrom):
                    kind[number] = "import"
        return Counter(kind.values())


def is_docstring(node: ast.AST) -> bool:
    """Whether a node is a text without effect: a docstring, or the description of a constant or field."""
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case _:
            return False


def python_modules(folder: Path, root: Path) -> list[Module]:
    """Return the modules below a folder, named from a root."""
    return [
        Module(
            ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"),
            path,
            path.read_text(encoding="utf-8"),
        )
        for path in sorted(folder.rglob("*.py"))
        if SKIPPED.isdisjoint(path.relative_to(root).parts)
    ]


def imported(module: Module, node: ast.ImportFrom) -> str:
    """Return the module from which names are imported."""
    package = module.name.split(".") if module.path.name == "__init__.py" else module.name.split(".")[:-1]
    base = package[: len(package) - node.level + 1] if node.level else []
    return ".".join([*base, *([node.module] if node.module else [])])


def importers(modules: list[Module]) -> Mapping[str, set[str]]:
    """Return the modules that import each module."""
    found: dict[str, set[str]] = {module.name: set() for module in modules}
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.ImportFrom):
                source = imported(module, node)
                names = [source, *(f"{source}.{name.name}" for name in node.names)]
            elif isinstance(node, ast.Import):
                names = [name.name for name in node.names]
            else:
                continue
            for name in names:
                if name in found and name != module.name:
                    found[name].add(module.name)
    return found


def subclasses(modules: list[Module], root: str) -> Iterator[str]:
    """Yield all subclasses of the class with a name, in all modules, without the class itself."""
    origin = {
        f"{module.name}:{name.asname or name.name}": f"{imported(module, node)}:{name.name}"
        for module in modules
        for node in module.nodes
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    bases: dict[str, set[str]] = {}
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                names = [ast.unparse(base) for base in node.bases]
                bases[f"{module.name}:{node.name}"] = {
                    defined(f"{module.name}:{name}", origin) for name in names
                }
    known = {name for name in bases if name.endswith(f":{root}")}
    while new := {name for name, of in bases.items() if name not in known and known & of}:
        yield from new
        known |= new


def defined(name: str, origin: Mapping[str, str]) -> str:
    """Return where a name is defined, following re-exports; for `module.Name`, the class."""
    module, _, inner = name.partition(":")
    outer, _, rest = inner.partition(".")
    for _ in range(8):  # imports of imports
        if f"{module}:{outer}" not in origin:
            break
        module, _, outer = origin[f"{module}:{outer}"].partition(":")
    return f"{module}.{outer}:{rest}" if rest else f"{module}:{outer}"


def calls(modules: list[Module], name: str) -> int:
    """Return how often a function or class is called, whatever name it is imported under."""
    return sum(
        isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", None)) == name
        for module in modules
        for node in module.nodes
    )


def local_imports(modules: list[Module]) -> int:
    """Return the number of import statements inside functions."""
    return sum(
        isinstance(inner, ast.Import | ast.ImportFrom)
        for module in modules
        for node in module.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
    )


def constants(modules: list[Module], wanted: Callable[[str, object], bool]) -> int:
    """Return how often modules define a constant with a name and a literal value, alone or with others."""
    return sum(
        isinstance(name, ast.Name) and isinstance(value, ast.Constant) and wanted(name.id, value.value)
        for module in modules
        for node in module.tree.body
        if isinstance(node, ast.Assign)
        for name, value in zip(
            getattr(node.targets[0], "elts", [node.targets[0]]),
            getattr(node.value, "elts", [node.value]),
            strict=False,
        )
    )


def mirror_lines(modules: list[Module]) -> int:
    """Return the number of lines of locale classes that have only fields, and so repeat the keys of a language file."""
    return sum(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for module in modules
        if re.search(r"\.report\.(words|locale)\b", module.name)
        for node in module.nodes
        if isinstance(node, ast.ClassDef)
        and all(isinstance(part, ast.AnnAssign) or is_docstring(part) for part in node.body)
    )


def literal_modules(modules: list[Module], values: frozenset[str]) -> int:
    """Return the number of modules that contain one of some texts as a literal."""
    return sum(
        any(isinstance(node, ast.Constant) and node.value in values for node in module.nodes)
        for module in modules
    )


def product_rows(modules: list[Module]) -> Iterator[tuple[str, int]]:
    """Yield the statistics of the Python package."""
    kinds = sum((module.kinds for module in modules), Counter[str]())
    yield "code lines (no blanks, docstrings, imports, comments)", kinds["code"]
    yield "all lines", sum(module.lines for module in modules)
    for kind in ("docstring", "blank", "import", "comment"):
        yield f"{kind} lines", kinds[kind]
    by_whom = importers(modules)
    small = [one for one in modules if one.lines <= SMALL_LINES and one.path.name != "__init__.py"]
    yield "modules", len(modules)
    yield f"modules of at most {SMALL_LINES} lines (no __init__)", len(small)
    yield "modules with one importer", sum(len(found) == 1 for found in by_whom.values())
    yield "small modules with one importer", sum(len(by_whom[one.name]) == 1 for one in small)
    yield "statement classes", len(set(subclasses(modules, "Statement")))
    yield "lines of classes that mirror the locale", mirror_lines(modules)
    yield (
        "lines of the fake agent in the wheel",
        sum(one.lines for one in modules if one.path.name.startswith("fake") and "agent" in one.name),
    )
    yield "places that call Resolver(", calls(modules, "Resolver")
    yield "places that call make_topology(", calls(modules, "make_topology")
    yield "places that call import_module(", calls(modules, "import_module")
    yield "imports within functions", local_imports(modules)
    yield "definitions of NS_PER_S", constants(modules, lambda name, _: name == "NS_PER_S")
    yield (
        "definitions of the Ethernet header's size",
        constants(
            modules,
            lambda name, value: value == ETHERNET_HEADER_BYTES and ("HEADER" in name or "ETHERNET" in name),
        ),
    )
    yield "modules that name a disk program", literal_modules(modules, DISK_PROGRAMS)


def rust_rows(root: Path) -> Iterator[tuple[str, int]]:
    """Yield the statistics of the crates, without the unit-test modules inside files."""
    files = [path for path in sorted((root / "crates").rglob("*.rs")) if "tests" not in path.parts]
    lines = [path.read_text(encoding="utf-8").split(RUST_TESTS)[0].splitlines() for path in files]
    yield "files", len(files)
    yield (
        "code lines (no blanks, comments)",
        sum(bool(line.strip()) and not line.lstrip().startswith("//") for text in lines for line in text),
    )
    yield (
        "comment lines (// alone)",
        sum(bool(re.match(r"\s*//(?![/!])", line)) for text in lines for line in text),
    )


def other_rows(root: Path) -> Iterator[tuple[str, int]]:
    """Yield the statistics of tests and benches."""
    tests, benches = python_modules(root / "tests", root), python_modules(root / "benches", root)
    yield "test files", len(tests)
    yield "test lines", sum(module.lines for module in tests)
    yield "bench files", len(benches)
    yield "bench files directly in benches/", sum(one.path.parent.name == "benches" for one in benches)
    yield "bench lines", sum(module.lines for module in benches)


def main() -> int:
    """Print a table of subjects and their counts."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1])
    modules = python_modules(root / "python" / "iolab", root / "python")
    if not modules:
        print(f"stats: no checkout: {root} has no python/iolab", file=sys.stderr)
        return 3
    for title, rows in (
        ("python/iolab", product_rows(modules)),
        ("crates", rust_rows(root)),
        ("tests, benches", other_rows(root)),
    ):
        print(title)
        for name, count in rows:
            print(f"  {name:<58} {count:>7,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
