"""Draw 200 sentences of a commit for readers to judge: `scripts/draw_sentences.py [COMMIT]`, by default HEAD.

The draw depends only on the commit: a sentence's rank is the digest of the commit's SHA and the sentence. Messages are
shown with sample values in their places. Text that a page shows together is drawn together: a table cell with the name
of its row and the head of its column, a list item with the sentence that it continues. CONTRIBUTING.md describes the
reading.
"""

import ast
import hashlib
import io
import re
import subprocess
import sys
import tarfile
import tokenize
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path

from messages import SAMPLES, Page, Unsampled

MESSAGES = re.compile(r"python/iolab/locale/en/\w+\.toml")
DOCS = re.compile(r"(?:README|CONTRIBUTING|SECURITY|CHANGELOG)\.md|docs/.+\.md")
PYTHON = re.compile(r"python/iolab/(?!agent/messages\.py).+\.py")
RUST = re.compile(r"crates/.+\.rs")
TESTS = re.compile(r"tests/.+\.py|crates/.+\.rs")

FENCE = re.compile(r"^\s*```.*?^\s*```$", re.MULTILINE | re.DOTALL)
GENERATED = re.compile(r"<!-- (\w+): begin -->.*?<!-- \1: end -->", re.DOTALL)
"""Tables that are generated from code; their sentences are drawn as docstrings."""
TABLE_RULE = re.compile(r"\|[ :|-]+")
ITEM = re.compile(r"\s*(?:[-*] |\d+\. )")
LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
CODE = re.compile(r"`[^`]*`")
WORD = re.compile(r"[A-Za-z]{2,}")
SENTENCE_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][)\"]))\s+(?=[A-Z`*\[(\"])")
TEST_NAME = re.compile(r"def (test_\w+)|#\[test\]\s+(?:#\[[^\n]+\]\s+)*(?:async )?fn (\w+)")
FEWEST_WORDS = 4
"""Shorter texts are labels, not sentences."""


def main() -> int:
    """Print the drawn sentences as a numbered list per kind; return the exit code."""
    revision = sys.argv[1] if len(sys.argv) > 1 else "HEAD"
    argv = ["git", "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"]
    found = subprocess.run(argv, check=False, capture_output=True, text=True)
    if found.returncode:
        print(f"draw_sentences: no commit {revision} in this repository", file=sys.stderr)
        return 2
    sha = found.stdout.strip()
    numbers, files = count(1), read_commit(sha)
    values = with_values(files)
    print(f"commit {sha}")
    for kind, texts in draw(sha, files).items():
        print(f"\n{kind}")
        for place, text in texts:
            print(f"{next(numbers):>4}. {values.get(text, text)}  [{place}]")
    return 0


def read_commit(sha: str) -> dict[str, str]:
    """Return the UTF-8 files of a commit by path, whatever is in the working tree."""
    archive = subprocess.run(["git", "archive", "--format=tar", sha], check=True, capture_output=True).stdout
    files = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isfile() else None
            if content is not None and Path(member.name).suffix in {".md", ".py", ".rs", ".toml"}:
                files[member.name] = content.read().decode()
    return files


def draw(sha: str, files: Mapping[str, str]) -> dict[str, list[tuple[str, str]]]:
    """Return the file and the text of the sentences drawn from each kind."""
    drawn = {}
    for kind, (size, sources) in KINDS.items():
        texts = {
            text: path
            for path in sorted(files)
            for pattern, read in sources
            if pattern.fullmatch(path)
            for text in read(files[path])
        }
        ranked = sorted(texts, key=lambda text: hashlib.sha256(f"{sha}\n{text}".encode()).digest())
        drawn[kind] = [(texts[text], text) for text in ranked[:size]]
    return drawn


def with_values(files: Mapping[str, str]) -> dict[str, str]:
    """Return the messages of a commit with sample values; a message that lacks a value is left out."""
    locale = {path: files[path] for path in sorted(files) if MESSAGES.fullmatch(path)}
    page = Page(locale, files.get(f"scripts/{SAMPLES.name}") or SAMPLES.read_text(encoding="utf-8"))
    found = {}
    for path, key, text in page.messages:
        with suppress(Unsampled, ValueError):  # an older commit: a new place, or a different form
            found[" ".join(text.split())] = " ".join(
                page.filled(path, key, text).replace("\n", " / ").split()
            )
    return found


def messages(text: str) -> Iterator[str]:
    """Yield the texts of a locale file with their placeholders."""
    tables: list[object] = [tomllib.loads(text)]
    while tables:
        match tables.pop():
            case dict() as table:
                tables += table.values()
            case list() as items:
                tables += items
            case str() as words if " " in words.strip():
                yield " ".join(words.split())


def prose(text: str) -> Iterator[str]:
    """Yield the sentences of a Markdown page: paragraphs, list items and table cells."""
    text = LINK.sub(r"\1", GENERATED.sub("", FENCE.sub("\n\n# code\n\n", text)))
    lead, drawn = "", True
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*] |\d+\. ))", text):
        if block.lstrip().startswith("|"):
            yield from cells(block.strip().splitlines())
        elif block.lstrip().startswith(("#", "<!--")):
            yield from () if drawn else (lead,)
            lead, drawn = "", True
        else:
            item = ITEM.match(block)
            found = list(sentences(block[item.end() :] if item else block))
            if item and lead and found and found[0][:1].islower():
                found[0], drawn = f"{lead} {found[0]}", True
            elif not drawn:
                yield lead
                drawn = True
            if not item:
                lead, drawn = (found.pop(), False) if found and found[-1].endswith(":") else ("", True)
            yield from found
    if not drawn:
        yield lead


def cells(rows: list[str]) -> Iterator[str]:
    """Yield the sentences of table cells, each with the name of its row and the head of its column."""
    rows = [row.strip() for row in rows if row.count("|") > 1]
    split = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]
    ruled = len(rows) > 1 and TABLE_RULE.fullmatch(rows[1])
    heads, body = (split[0], split[2:]) if ruled else ([], split)
    name = ""
    for row in body:
        name = row[0] or name
        for column, cell in enumerate(row):
            if column == 0 and len(row) > 1 and len(WORD.findall(CODE.sub("", cell))) < FEWEST_WORDS:
                continue  # a name
            head = heads[column] if column < len(heads) else ""
            shown = " | ".join(part for part in (name if column else "", head) if part)
            yield from (f"{shown}: {found}" if shown else found for found in sentences(cell))


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text that are longer than a label; an abbreviation in parentheses ends none."""
    words, start = " ".join(text.split()), 0
    for end in [*(match.span() for match in SENTENCE_END.finditer(words)), (len(words), len(words))]:
        sentence = words[start : end[0]]
        if sentence.count("(") > sentence.count(")") and end[0] < len(words):
            continue
        start = end[1]
        if len(sentence.split()) >= FEWEST_WORDS:
            yield sentence


def python_words(text: str) -> Iterator[str]:
    """Yield the sentences of docstrings, of descriptions below names, and of comments."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str() as words)):
                yield from sentences(words)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith(("# type:", "# noqa", "# fmt:")):
            yield from sentences(token.string.lstrip("#"))


def rust_words(text: str) -> Iterator[str]:
    """Yield the sentences of comments; consecutive comment lines are one text."""
    for block in re.findall(r"(?:^[ \t]*//[/!]?[^\n]*\n)+", text, re.MULTILINE):
        yield from sentences(re.sub(r"^[ \t]*//[/!]?(?: # Errors$)?", "", block, flags=re.MULTILINE))


def names_of_tests(text: str) -> Iterator[str]:
    """Yield the names of the test functions of a Python or Rust file."""
    for match in TEST_NAME.finditer(text):
        yield match[1] or match[2]


Reader = Callable[[str], Iterator[str]]
KINDS: dict[str, tuple[int, tuple[tuple[re.Pattern[str], Reader], ...]]] = {
    "messages": (80, ((MESSAGES, messages),)),
    "docs": (60, ((DOCS, prose),)),
    "docstrings and comments": (40, ((PYTHON, python_words), (RUST, rust_words))),
    "test names": (20, ((TESTS, names_of_tests),)),
}
"""Kind to the number of drawn sentences, and to the patterns of its files with the functions that read them."""

if __name__ == "__main__":
    sys.exit(main())
