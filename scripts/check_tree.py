"""Check rules that no linter checks: sizes, line lengths of documentation, versions, paths and undeclared imports.

The program reads the files that git tracks or would add, and changes nothing. lint.sh calls it.
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
"""Suffixes of files that contain text for people."""
UNPLAIN = re.compile(
    r"\b(?:(?:is|are|was|were) tol[d]|told (?:of|to)|ane[w]|who[m]|that is non[e]|leave awa[y]|no counter says wher[e]|"
    r"took it u[p]|robbed o[f]|sleep as deepl[y]|vanish(?:es)? on the wa[y]|seen acknowledge[d]|the door o[f]|"
    r"dropped from the cache firs[t]|are not of the la[b]|is not of the la[b]|(?:is|are) no I[P]|work of other[s]|"
    r"shares a compute[r]|comes? apar[t]|the begin o[f]|what else to kno[w]|how ends mee[t]|nobody coul[d]|"
    r"asked and printe[d]|makes no difference show[n]|shows only change[s]|without en[d]|scatter b[y]|"
    r"take[sn]? apar[t]|resemble the tria[l]|(?:in|has a) doub[t]|are sure o[f]|"
    r"nothing goes o[n]|pass nothin[g]|counts in place o[f]|speaks? o[f]|"
    r"(?:is|are) asked o[f]|with(?:out)? checksum(?! offloa[d]))\b",
)
"""Phrases that read like a translation; CONTRIBUTING.md and the glossary have the right phrases."""


def main() -> int:
    """Print every error and return the exit code."""
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
    """Return the files that git tracks, or would track after the next `git add`."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split("\0")
    return [path for path in map(Path, filter(None, names)) if path.is_file()]


def check_syntax(files: list[Path]) -> Iterator[str]:
    """Report files that this Python cannot parse; the other checks skip these files."""
    for path in files:
        if path.suffix == ".py":
            try:
                ast.parse(path.read_text())
            except SyntaxError as error:
                yield f"{path}:{error.lineno}: {error.msg}"


def check_sizes(files: list[Path]) -> Iterator[str]:
    """Report modules and functions that are too long; tests and the generated module are exempt."""
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
    """Report long lines of documentation, except table rows and program output, which cannot be wrapped."""
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
    """Yield line, name and length [lines] of each function of code that rustfmt has formatted."""
    lines = code.splitlines()
    for begin, line in enumerate(lines):
        if match := RUST_FUNCTION.match(line):
            closing = match[1] + "}"
            if line.rstrip().endswith(("}", ";")):
                continue
            end = next((at for at, text in enumerate(lines[begin:], begin) if text == closing), begin)
            yield begin + 1, match[2], end - begin + 1


def check_paths(files: list[Path]) -> Iterator[str]:
    """Report absolute paths into a home folder or into this checkout."""
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
    """Report phrases that no engineer writes; tests and the page that lists the phrases are exempt."""
    for path in files:
        worded = (path.suffix in WORDED or path.name == "Makefile") and path.name != "CONTRIBUTING.md"
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
    """Report imports from a test module: code that tests share belongs in a separate module."""
    for path in files:
        if path.suffix != ".py" or path.parts[0] != "tests":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            if node.module.rpartition(".")[2].startswith("test_"):
                yield f"{path}:{node.lineno}: {node.module} has tests: move what is shared to a module of its own"


def check_versions() -> Iterator[str]:
    """Report if the wheel, the package and the agent would have different version numbers."""
    package = re.search(r'__version__ = "(.+)"', Path("python/iolab/__init__.py").read_text())
    wheel = tomllib.loads(Path("pyproject.toml").read_text())["project"]["version"]
    agent = tomllib.loads(Path("Cargo.toml").read_text())["workspace"]["package"]["version"]
    seen = {"pyproject.toml": wheel, "Cargo.toml": agent, "python/iolab/__init__.py": package and package[1]}
    if len(set(seen.values())) > 1:
        yield f"one version is wanted, seen: {seen}"


def check_imports(files: list[Path]) -> Iterator[str]:
    """Report imports of packages that pyproject.toml does not require, and that other machines may lack."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    extras = [text for extra in project.get("optional-dependencies", {}).values() for text in extra]
    wanted = [*project.get("dependencies", []), *extras]
    declared = {normalize(re.split(r"[^\w.-]", text)[0]) for text in wanted}
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
    """Report circular imports between the files of a crate; test modules are exempt."""
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
    """Whether a Rust module contains only tests."""
    return path.stem.endswith("tests")


def module_name(path: Path) -> tuple[str, ...]:
    """Return the parts of a file's module name."""
    parts = path.with_suffix("").parts
    return parts[:-1] if parts[-1] in {"mod", "lib", "main"} else parts


def list_uses(
    name: tuple[str, ...], path: Path, modules: Collection[tuple[str, ...]]
) -> Iterator[tuple[str, ...]]:
    """Yield the modules of its crate that a module imports or names."""
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
    """Yield each path of a `use` statement with groups in braces."""
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
    """Return the name of a distribution, normalized according to PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())
