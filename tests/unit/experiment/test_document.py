"""Hostile and broken files: a clear error with its line, quickly, never a traceback."""

import random
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.work import counted

from iolab.errors import ExitCode, InputError
from iolab.experiment import load, parse
from iolab.experiment.reading.document import MOST_BYTES, Table, line_of, read
from iolab.experiment.reading.problems import Problems

MOST_CALLS = 12_000_000
"""Until an error is reported: about two seconds, which a user waits for it."""
BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)
)


def refusal(data: bytes | str, folder: Path) -> str:
    """Return the message for a file; check the amount of work and the exit code."""
    path = folder / "x.yaml"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    with pytest.raises(InputError) as caught, counted() as work:
        load(path)
    assert work.calls < MOST_CALLS
    assert caught.value.exit_code is ExitCode.INPUT_WRONG
    assert all(problem.allowed and problem.where.startswith(str(path)) for problem in caught.value.problems)
    return str(caught.value).replace(str(folder), "")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: \0", 1, "control character 0x00"),
        ("a: \x85", 1, "control character"),
        ("lab:\n\tmachines: 1", 2, "indent with spaces, not tabs"),
        ("a: !!python/object/apply:os.system [id]", 1, "without tags"),
        ("a: 1\n---\nb: 1", 2, "one document per file"),
        ("", 1, "an empty file"),
        ("# nothing\n", 1, "an empty file"),
        ("- a", 1, "saw a list"),
        ("hello", 1, "a single value"),
        ("a: 1\n? [a]\n: b", 2, "as a key"),
        ("{a: 1}: b", 1, "as a key"),
        ("~: b", 1, "an empty key"),
        ("a: .nan", 1, "a finite number"),
        ("a: -.inf", 1, "a finite number"),
        ("a: 1e999", 1, "a double-precision float"),
        ("a: " + "9" * 10_000, 1, "a number with 10000 digits"),
        ("a: &x {b: 1}\nc:\n  <<: *x", 3, "no merge keys"),
        ("f:\n  *.from: 3", 2, 'quote a text or path that begins with *: "*.from"'),
        ("a: &a [*a]", 1, "defined above"),
        ("a: 1\nb: 2\na: 3", 3, "already on line 1"),
        ("a: [1, 2", 1, "YAML"),
        ("a: 'x", 1, "YAML"),
        ("a: b: c", 1, "quote text that contains ': '"),
        ("[" * 100_00, 1, "levels of nesting"),
        ("- " * 10_000, 1, "levels of nesting"),
        ("a: " + "{b: " * 1000 + "}" * 1000, 1, "levels of nesting"),
        (BOMB, 5, "aliases expanded"),
        ("a: [" + "1," * 31_000 + "]", 1, "at most 30000 values"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_broken_yaml_is_refused_with_its_line(text: str, line: int, words: str, tmp_path: Path) -> None:
    """Report the parser's error at its line."""
    told = refusal(text, tmp_path).splitlines()
    assert any(problem.startswith(f"/x.yaml:{line}: ") and words in problem for problem in told)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 'x\nb: 1\nc: 2\n", 1),
        ('a: 1\ntitle: "x\nlab:\n  a: 1\n', 2),
        ("a: 'x\n---\nb: 1", 1),
        ("a: 1\nb: 'x\nc: 'y'\nd: 1\n", 2),
        ('a: {b: "x, c: 1}\nd: {e: "y", f: 2}\n', 1),
        ("a: ['x, y]\nb: 1\nc: ['z']\n", 1),
    ],
)
def test_unclosed_quote_is_reported_at_the_opening_line(text: str, line: int, tmp_path: Path) -> None:
    """Report neither the end of the file nor the next quotation mark."""
    told = refusal(text, tmp_path)
    assert told.startswith(f"/x.yaml:{line}: ")
    assert "close the quote that starts on this line" in told


def test_unreadable_or_non_utf8_file_is_refused(tmp_path: Path) -> None:
    """Check directories, missing files, unreadable files and other encodings."""
    for path, words in (
        (tmp_path, "directory"),
        (tmp_path / "none", "No such file"),
        (Path("a\0b"), "null byte"),
    ):
        with pytest.raises(InputError, match=words):
            load(path)
    assert "byte 0xff" in refusal(b"a: 1\nb: \xff", tmp_path)
    assert ":2:" in refusal(b"a: 1\nb: \xff", tmp_path)
    assert "UTF-8" in refusal("a: é".encode("utf-16"), tmp_path)


def test_megabyte_of_garbage_is_refused_by_its_size(tmp_path: Path) -> None:
    """Refuse it by size alone, whatever its contents."""
    source = random.Random(1)
    for data in (source.randbytes(2**20), b"a: b\n" * 2**18, b"[" * 2**20, b"\n" * 2**20):
        assert f"at most {MOST_BYTES} bytes" in refusal(data, tmp_path)


@pytest.mark.parametrize("seed", range(5))
def test_garbage_of_the_maximum_size_is_refused_quickly(seed: int, tmp_path: Path) -> None:
    """Check random bytes, and characters that are special in YAML."""
    source = random.Random(seed)
    refusal(source.randbytes(MOST_BYTES), tmp_path)
    refusal("".join(source.choices("abc: \n-[]{},'\"#&*!|>?%@`x19", k=MOST_BYTES)), tmp_path)


def test_largest_valid_file_is_read_with_a_bounded_amount_of_work() -> None:
    """Read some 600 machines and links, every one of them varied."""
    lines = ["lab:", "  machines:"]
    lines += [f"    m{i}: {{kind: netns, settings: {{net.ipv4.ip_forward: {i}}}}}" for i in range(300)]
    lines += ["  links:"]
    links = [f"{{ends: [m{i}.eth0, m{i + 1}.eth1], mtu: 1500, offload: {{tso: on}}}}" for i in range(299)]
    lines += [f"    l{i}: {link}" for i, link in enumerate(links)]
    lines += ["measure:"]
    lines += [f"  t{i}: {{kind: stream, from: m{i}, to: m{i + 1}, window: 64K}}" for i in range(298)]
    lines += [
        "factors:",
        "  links.*.mtu: [1500, 9000]",
        '  "*.window": [64K, 1M]',
        "  machines.*.forward: [none, route]",
    ]
    text = "\n".join(lines)
    text += "\n#" + "x" * (MOST_BYTES - len(text) - 2)
    with counted() as work:
        experiment = parse(text, "large.yaml")
    assert work.calls < MOST_CALLS
    assert len(experiment.tree["measure"]) == 298


def test_scalars_follow_yaml_1_2() -> None:
    """Read on, off, yes and no as text; keep the type and the spelling of numbers."""
    problems = Problems("x")
    table = read(b"a: [on, off, yes, no, true, 1, 0x10, 1.50, ~, '1', 1:30, 1_000, 64K]", problems)
    assert table is not None
    assert table["a"] == ["on", "off", "yes", "no", True, 1, 16, 1.5, None, "1", "1:30", "1_000", "64K"]
    assert table["a"].texts == {6: "0x10", 7: "1.50"}


def test_every_key_and_item_has_its_line_number() -> None:
    """Include a byte order mark, CRLF line ends, and an alias."""
    table = read(
        "\ufeffa:\r\n  - x\r\n  - {b: 1,\r\n     c: 2}\r\nd: &d {e: 1}\r\nf: *d\r\n".encode(), Problems("x")
    )
    assert isinstance(table, Table)
    assert [line_of(table, key) for key in ("a", "d", "f")] == [1, 5, 6]
    assert [line_of(table["a"], index) for index in (0, 1)] == [2, 3]
    assert line_of(table["a"][1], "c") == 4
    assert line_of(table["f"], "e") == 5


def reads_or_refuses(data: bytes) -> None:
    """Check that data is read or refused, on every level."""
    problems = Problems("x.yaml")
    table = read(data, problems)
    assert (table is not None) or problems
    text = data.decode("utf-8", "replace")
    with suppress(InputError):
        parse(text, "x.yaml")


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
@example(b"\xef\xbb\xbf")
def test_arbitrary_bytes_never_cause_a_traceback(data: bytes) -> None:
    """Return an experiment or raise InputError."""
    reads_or_refuses(data)


@settings(max_examples=500, deadline=None)
@given(st.text(st.sampled_from("abl: \n-[]{},'\"#&*!|>?%@`~<.19\t"), max_size=80))
@example("a: !<>")
@example("%YAML 1.1\n---\na: yes")
@example("%YAML 9.9\n---\na: yes")
@example("? a\n? b")
def test_arbitrary_punctuation_never_causes_a_traceback(text: str) -> None:
    """Return an experiment or raise InputError, for any combination of YAML's special characters."""
    reads_or_refuses(text.encode())
