"""Checks what no linter knows: sizes of modules and functions, lines of documentation, one version,
no path of one machine, no import of a package that is here only by chance.

Reads the files that git knows or would add; changes nothing. Called by lint.sh.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import protocol

MODULE_LINES = 400
FUNCTION_LINES = 60
PROSE_CHARACTERS = 120

RUST_FUNCTION = re.compile(r"^(\s*)(?:pub(?:\([^)]*\))? )?(?:const |async |unsafe |extern \"C\" )*fn (\w+)")

WORDED = {".py", ".rs", ".md", ".sh", ".toml", ".yaml"}
"""Suffixes of files whose words are read by people."""
UNPLAIN = re.compile(
    r"\b(?:(?:is|are|was|were) told|told (?:of|to)|ane[w]|who[m]|that is non[e]|leave awa[y])\b"
)


def main() -> int:
    """Print every complaint and return the exit code."""
    files = list_files()
    if broken := [*check_syntax(files)]:
        print("\n".join(broken))
        return 1
    of_files = [*check_sizes(files), *check_prose(files), *check_wording(files), *check_paths(files)]
    complaints = [
        *of_files,
        *check_shared(files),
        *protocol.stale(),
        *check_versions(),
        *check_imports(files),
        *check_circles(),
    ]
    print("\n".join(complaints) or f"{len(files)} files checked")
    return 1 if complaints else 0


def list_files() -> list[Path]:
    """Return the files that are committed or would be with the next `git add`."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split("\0")
    return [path for path in map(Path, filter(None, names)) if path.is_file()]


def check_syntax(files: list[Path]) -> Iterator[str]:
    """Complain of what this Python cannot parse: nothing further can be said of it."""
    for path in files:
        if path.suffix == ".py":
            try:
                ast.parse(path.read_text())
            except SyntaxError as error:
                yield f"{path}:{error.lineno}: {error.msg}"


def check_sizes(files: list[Path]) -> Iterator[str]:
    """Complain of long modules and functions; tests, and a generated module, are exempt."""
    for path in files:
        if path.suffix not in {".py", ".rs"} or "tests" in path.parts:
            continue
        text = path.read_text()
        code = text if path.suffix == ".py" else text.split("#[cfg(test)]")[0]
        lines = code.count("\n")
        if lines > MODULE_LINES and path != protocol.MODULE:
            yield f"{path}: {lines} lines, at most {MODULE_LINES} are allowed: split it"
        measure = measure_python if path.suffix == ".py" else measure_rust
        for line, name, length in measure(code):
            if length > FUNCTION_LINES:
                yield f"{path}:{line}: {name} has {length} lines, at most {FUNCTION_LINES} are allowed"


def check_prose(files: list[Path]) -> Iterator[str]:
    """Complain of long lines of documentation; rows of tables and what programs print cannot be broken."""
    for path in files:
        if path.suffix != ".md" or "tests" in path.parts:
            continue
        within_code = False
        for number, line in enumerate(path.read_text().splitlines(), 1):
            within_code ^= line.lstrip().startswith("```")
            if len(line) > PROSE_CHARACTERS and not within_code and not line.startswith("|"):
                yield f"{path}:{number}: {len(line)} characters, at most {PROSE_CHARACTERS} are allowed: break it"


def measure_python(code: str) -> Iterator[tuple[int, str, int]]:
    """Yield line, name and length [lines] of each function."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def measure_rust(code: str) -> Iterator[tuple[int, str, int]]:
    """Yield line, name and length [lines] of each function of code that rustfmt has laid out."""
    lines = code.splitlines()
    for begin, line in enumerate(lines):
        if match := RUST_FUNCTION.match(line):
            closing = match[1] + "}"
            if line.rstrip().endswith(("}", ";")):
                continue
            end = next((at for at, text in enumerate(lines[begin:], begin) if text == closing), begin)
            yield begin + 1, match[2], end - begin + 1


def check_paths(files: list[Path]) -> Iterator[str]:
    """Complain of absolute paths into a home or into this checkout."""
    here = re.escape(str(Path.cwd()))
    private = re.compile(rf"(?<![\w.$}}])(?:/(?:home|Users)/[\w.-]+|/root(?=/)|{here}\b)")
    for path in files:
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if found := private.search(line):
                yield f"{path}:{number}: {found[0]} is a path of one machine: write it relative to the tree"


def check_wording(files: list[Path]) -> Iterator[str]:
    """Complain of phrases that no engineer writes; the words of tests are their own."""
    for path in files:
        worded = path.suffix in WORDED or path.name == "Makefile"
        if not worded or path.parts[0] not in {
            "python",
            "crates",
            "scripts",
            "docs",
            "labs",
            "guest",
            path.name,
        }:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if found := UNPLAIN.search(line):
                yield f"{path}:{number}: '{found[0]}': say it plainly, as a field engineer writes"


def check_shared(files: list[Path]) -> Iterator[str]:
    """Complain of what is imported from a module of tests: what tests share has a module of its own."""
    for path in files:
        if path.suffix != ".py" or path.parts[0] != "tests":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            if node.module.rpartition(".")[2].startswith("test_"):
                yield f"{path}:{node.lineno}: {node.module} has tests: move what is shared to a module of its own"


def check_versions() -> Iterator[str]:
    """Complain when the wheel, the package and the agent would call themselves different versions."""
    package = re.search(r'__version__ = "(.+)"', Path("python/iolab/__init__.py").read_text())
    wheel = tomllib.loads(Path("pyproject.toml").read_text())["project"]["version"]
    agent = tomllib.loads(Path("Cargo.toml").read_text())["workspace"]["package"]["version"]
    seen = {"pyproject.toml": wheel, "Cargo.toml": agent, "python/iolab/__init__.py": package and package[1]}
    if len(set(seen.values())) > 1:
        yield f"one version is wanted, seen: {seen}"


def check_imports(files: list[Path]) -> Iterator[str]:
    """Complain when the package imports what pyproject.toml does not ask for: it may be missing elsewhere."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    declared = {normalize(re.split(r"[^\w.-]", text)[0]) for text in project.get("dependencies", [])}
    owners = packages_distributions()
    for path in files:
        if path.suffix != ".py" or Path("python/iolab") not in path.parents:
            continue
        for line, module in list_imports(path.read_text()):
            known = module == "iolab" or module in sys.stdlib_module_names
            if not known and declared.isdisjoint(map(normalize, owners.get(module, [module]))):
                yield f"{path}:{line}: {module} is no dependency of pyproject.toml: add it there, or do without"


def list_imports(code: str) -> Iterator[tuple[int, str]]:
    """Yield line and top-level module of each absolute import."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.split(".")[0]


def check_circles() -> Iterator[str]:
    """Complain when files of a crate import each other in a circle; modules of tests are exempt."""
    for folder in sorted(Path("crates").glob("*/src")):
        modules = {module_name(path.relative_to(folder)): path for path in sorted(folder.rglob("*.rs"))}
        edges = {
            name: {*list_uses(name, path, modules)} for name, path in modules.items() if not is_test(path)
        }
        while leaves := [name for name, used in edges.items() if used.isdisjoint(edges)]:
            for name in leaves:
                del edges[name]
        while roots := edges.keys() - set().union(*edges.values()):
            for name in roots:
                del edges[name]
        if edges:
            names = ", ".join(str(modules[name].relative_to(folder)) for name in edges)
            yield f"{folder}: these import each other in a circle: {names}: move what they share below both"


def is_test(path: Path) -> bool:
    """Whether a module of Rust has tests only."""
    return path.stem.endswith("tests")


def module_name(path: Path) -> tuple[str, ...]:
    """Return the parts of the name of a file's module."""
    parts = path.with_suffix("").parts
    return parts[:-1] if parts[-1] in {"mod", "lib", "main"} else parts


def list_uses(
    name: tuple[str, ...], path: Path, modules: Collection[tuple[str, ...]]
) -> Iterator[tuple[str, ...]]:
    """Yield the modules of the same crate that a module imports or names."""
    text = re.sub(r"//.*", "", path.read_text()).split("#[cfg(test)]\nmod tests {")[0]
    paths = [used for match in re.finditer(r"\buse ([^;]+);", text) for used in expand_use(match[1])]
    for used in [*paths, *re.findall(r"\b(?:crate|super)(?:::\w+)+", text)]:
        first, *rest = used.split("::")
        base = {"crate": [], "self": [*name], "super": [*name[:-1]]}.get(first)
        if base is None:
            continue
        while rest and rest[0] == "super":
            base, rest = base[:-1], rest[1:]
        parts = (*base, *rest)
        while parts and parts not in modules:
            parts = parts[:-1]
        if parts and parts != name:
            yield parts


def expand_use(text: str) -> Iterator[str]:
    """Yield each path of a `use` with groups in braces."""
    before, brace, inner = text.partition("{")
    if not brace:
        yield re.sub(r" as \w+|\s", "", before)
        return
    depth, item = 0, ""
    for letter in inner.rstrip()[:-1] + ",":
        depth += (letter == "{") - (letter == "}")
        if letter == "," and not depth:
            if item.strip():
                yield from expand_use(before.strip() + item.strip())
            item = ""
        else:
            item += letter


def normalize(name: str) -> str:
    """Return a distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())
