"""Every statement has a sentence in every language, and is read back as stored."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pkgutil import iter_modules
from string import Formatter
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from pydantic import ValidationError
from tests.stated import codes
from tests.unit.store.drawn import RECORDS

import iolab.messages
from iolab.locale import languages
from iolab.messages.caveats import OthersOnCpu
from iolab.messages.codes import MODULE_OF
from iolab.messages.evidence import CpuBusy, CpuSharers, Evidence, LostAt, OwnCpu, ThreadShare
from iolab.messages.places import AtPort
from iolab.messages.statement import CODE, NAME, QUOTED, Name, Statement, statements_of
from iolab.messages.warnings import SenderShort, TrialWarning
from iolab.report.locale import words_of
from iolab.report.locale.words import Sentences
from iolab.results.encoding import Encoding, Malformed
from iolab.results.verdict import Limit, Verdict

ALL = codes(Statement)
EACH_FIRST = """
import importlib, os, sys
import pydantic
for name in sys.argv[1:]:
    if (pid := os.fork()) == 0:
        importlib.import_module(name)
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        sys.exit(f"importing {name} first failed")
"""
READ_ONE = """
import sys
from iolab.messages.statement import Statement
Statement.model_validate({"code": "at-port", "port": "a.p"})
print(*(name for name in sys.modules if name.startswith("iolab.messages.")))
"""


def made(kind: Any) -> Any:
    """Return a value of a parameter's type; for a statement kind, its first one."""
    if get_origin(kind) in (Annotated, Literal):
        return made(get_args(kind)[0]) if get_origin(kind) is Annotated else get_args(kind)[0]
    if get_origin(kind) in (Union, UnionType):
        return made(get_args(kind)[0])
    if get_origin(kind) is tuple:
        return (made(get_args(kind)[0]),)
    if isinstance(kind, type) and issubclass(kind, Statement):
        return example(min(codes(kind).values(), key=holds))
    return {str: "dut.eth0", int: 7_000_000, float: 0.25, bool: True}[kind]


def holds(kind: type[Statement]) -> int:
    """Return the number of statements within a statement."""
    return sum(
        "Statement" in str(field.annotation) or "iolab." in str(field.annotation)
        for field in kind.model_fields.values()
    )


def example(kind: type[Statement], code: str | None = None) -> Statement:
    """Return a statement with a value for each of its parameters; for a class with several codes, of the given code."""
    parameters = {name: made(field.annotation) for name, field in kind.model_fields.items()}
    return kind(**parameters | ({CODE: code} if code is not None and CODE in parameters else {}))


def parameters(template: str) -> set[str]:
    """Return the names in braces."""
    return {name for _, name, _, _ in Formatter().parse(template) if name}


@pytest.mark.parametrize("code", ALL)
def test_stored_statement_is_read_back_unchanged(code: str) -> None:
    """Read it by its class, and by its code if only the kind is known."""
    kind = ALL[code]
    stated = example(kind, code)
    assert stated.code == code
    assert kind.model_validate(stated.model_dump(mode="json")) == stated
    assert Statement.model_validate_json(stated.model_dump_json()) == stated


def undeclared(kind: Any, declared: Sequence[object] = ()) -> bool:
    """Return whether a type contains a text that is not declared as a name or a quotation."""
    if get_origin(kind) is Annotated:
        text, *said = get_args(kind)
        return undeclared(text, said)
    if get_origin(kind) is not None:
        return any(undeclared(part) for part in get_args(kind) if part is not ...)
    return kind is str and not {NAME, QUOTED} & {one for one in declared if isinstance(one, str)}


def test_statements_contain_no_sentence_text() -> None:
    """Require each text parameter to be a name or a quotation."""
    assert not [
        f"{kind.__name__}.{name}"
        for kind in ALL.values()
        for name, field in kind.model_fields.items()
        if undeclared(field.annotation, field.metadata)
    ]
    assert not [
        f"{kind.__name__}.{name}"
        for kind in RECORDS
        for name, declared in get_type_hints(kind, include_extras=True).items()
        if undeclared(declared)
    ]
    assert undeclared(str)
    assert undeclared(tuple[str, ...])
    assert not undeclared(tuple[Name, ...])


@pytest.mark.parametrize("code", languages())
def test_every_language_has_a_sentence_for_every_statement(code: str) -> None:
    """Compare sentences with statements, and placeholders with parameters."""
    language = words_of(code).said
    assert language.sentences.keys() == ALL.keys()
    assert language.advice.keys() <= ALL.keys()
    assert codes(TrialWarning).keys() <= language.advice.keys()
    for table in (language.sentences, language.advice):
        for name, template in table.items():
            assert parameters(template) <= ALL[name].model_fields.keys(), name
    for stated in (example(kind, code) for code, kind in ALL.items()):
        assert "{" not in language.say(stated)
        assert language.say(stated)


def test_language_without_sentences_shows_code_and_parameters() -> None:
    """Format all statements with a synthetic language."""
    said = Sentences(
        units={},
        joined={"comma": "+", "clauses": "|", "and": "{last}&{first}"},
        sentences={name: backwards_of(kind) for name, kind in ALL.items()},
        advice={},
        names={},
    )
    assert said.say(SenderShort(machine="a", sent_bps=9e8, intended_bps=1e9)) == "<1 Gbit/s><900 Mbit/s><a>"
    assert all(said.say(example(kind, code)) for code, kind in ALL.items())
    bare = Sentences(units={}, joined={}, sentences={}, advice={}, names={})
    assert bare.say(OwnCpu(cpu=3)) == "cpu {'cpu': 3}"


def backwards_of(kind: type[Statement]) -> str:
    """Return a template with the parameters in reverse order."""
    return "".join(f"<{{{name}}}>" for name in reversed(kind.model_fields)) or "-"


@pytest.mark.parametrize(
    "stored",
    [
        {"code": "no-such-code"},
        {"code": "sender-short", "machine": "a", "sent_bps": 1.0},
        {"code": "sender-short", "machine": "a", "sent_bps": 1.0, "intended_bps": 2.0, "colour": "red"},
        {"code": "sender-short", "machine": "a", "sent_bps": "fast", "intended_bps": 2.0},
        {"code": "lost-at", "frames": 1, "lost_frames": 2, "place": "a", "reason": "b"},
        {"machine": "a", "sent_bps": 1.0, "intended_bps": 2.0},
        "sender-short",
    ],
)
def test_unknown_code_or_parameter_is_refused(stored: Mapping[str, object] | str) -> None:
    """Refuse a missing one, a wrong type, and a statement of a different kind, too."""
    with pytest.raises(ValidationError):
        TrialWarning.model_validate(stored)


def test_record_with_statements_is_read_back_exactly() -> None:
    """Use the encoding of records, which refuses additional fields and wrong types."""
    seen = (
        CpuBusy(cpu=OwnCpu(cpu=1), busy_ratio=0.98),
        CpuSharers(sharers=(ThreadShare(thread="a", busy_ratio=1),)),
    )
    verdict = Verdict(Limit.CPU, seen, AtPort(port="dut.eth0"), OthersOnCpu(others_ratio=0.2))
    assert Encoding(Verdict).decode(Encoding(Verdict).encode(verdict)) == verdict
    with pytest.raises(Malformed, match="not a code of the kind 'caveat'"):
        Encoding(Verdict).decode(Encoding(Verdict).encode(verdict).replace(b"others-on-cpu", b"cpu-busy"))


def test_nested_statements_keep_their_kind() -> None:
    """Check a clause with a CPU, and a list of clauses."""
    busy = CpuBusy(cpu=OwnCpu(cpu=1), busy_ratio=0.98)
    assert Evidence.model_validate_json(busy.model_dump_json()) == busy
    with pytest.raises(ValidationError):
        Evidence.model_validate({"code": "cpu-busy", "busy_ratio": 0.98, "cpu": {"code": "place-unknown"}})


@pytest.mark.parametrize("module", [one.name for one in iter_modules(iolab.messages.__path__)])
def test_table_of_codes_lists_every_statement_of_a_module(module: str) -> None:
    """List each once: a record names the code, and the table gives the module of its class."""
    assert sorted(statements_of(module)) == sorted(code for code, of in MODULE_OF.items() if of == module)


def test_statement_code_is_derived_from_its_class_name() -> None:
    """Give a statement kind no code."""
    assert (LostAt.code, OwnCpu.code) == ("lost-at", "cpu")
    assert not hasattr(Evidence, "code")


def test_each_message_module_can_be_imported_first() -> None:
    """Import by any stored code, without a prerequisite."""
    names = [one.name for one in iter_modules(iolab.messages.__path__, "iolab.messages.")]
    done = subprocess.run(
        [sys.executable, "-c", EACH_FIRST, *names], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_reading_a_record_loads_only_the_modules_of_its_codes() -> None:
    """Skip the other modules."""
    argv = [sys.executable, "-c", READ_ONE]
    found = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()
    assert "iolab.messages.places" in found
    assert "iolab.messages.checks" not in found
