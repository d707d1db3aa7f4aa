"""A language is a folder of files: check, plan, run and doctor use it, and English for missing phrases."""

import json
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.unit.cli.examples import FACTS, GOOD, VM, written

from iolab.cli.main import run
from iolab.errors import ExitCode, Refused
from iolab.locale import phrases
from iolab.messages.checks import HostExamined
from iolab.report.locale import words_of
from iolab.run.doctor.examination import Finding, Grade

FILES = {
    "check": 'resolving = "~ losing {place}"\n',
    "meaning": 'file-is-correct = "~ {numbers}, saat {seed}"\n',
    "plan": 'plan-in-short = "~ {title}: {trials}"\ncells-and-reason = "~ {cell} + {others}: {reason}"\n',
    "run": 'host-held-by-lab = "~ {host}: {holders:and}"\nlab-of-process = "labo {lab} {pid}"\n',
    "doctor": 'finding = "~ {mark} {subject}: {seen}"\nmark-good = "bon"\n',
    "report": '[said.sentences]\n"host-free" = "~ libre"\n',
    "errors": 'problem = "~ {where}: {doing} / {seen} / {allowed}"\n',
    "lists": 'comma = " , "\n',
    "help": 'plan = "~ montrer"\n--all = "~ tout"\nimage-list = "~ lister"\n',
    "cli": 'no-runs-in-folder = "~ rien dans {folder}"\n',
}
"""Phrases of the language; all others are English."""


@pytest.fixture(autouse=True)
def language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Provide a test language next to English."""
    home = tmp_path / "locale"
    shutil.copytree(phrases.HOME / phrases.ENGLISH, home / phrases.ENGLISH)
    (home / "xx").mkdir()
    for name, text in FILES.items():
        (home / "xx" / f"{name}.toml").write_text(text)
    monkeypatch.setattr(phrases, "HOME", home)
    monkeypatch.chdir(tmp_path)
    phrases.templates.cache_clear()
    yield
    phrases.templates.cache_clear()
    words_of.cache_clear()


def test_check_describes_a_file_in_the_chosen_language(capsys: pytest.CaptureFixture[str]) -> None:
    """Translate texts and list separators, not the numbers of cells and blocks."""
    assert run(["check", written(GOOD), "--lang", "xx"]) == ExitCode.DONE
    printed = capsys.readouterr().out
    assert "~ 2 cells , 1 block, saat " in printed
    assert "  lab: 2 machines , 1 link; measures: tcp" in printed


def test_check_reports_problems_in_the_chosen_language(capsys: pytest.CaptureFixture[str]) -> None:
    """Translate standard error and JSON."""
    wrong = written(GOOD.replace("from: near", "from: nowhere"))
    assert run(["check", wrong, "--lang", "xx"]) == ExitCode.INPUT_WRONG
    assert "~ lab.yaml:7: ~ losing measure.tcp" in capsys.readouterr().err
    assert run(["check", wrong, "--json", "--lang", "xx"]) == ExitCode.INPUT_WRONG
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert problem["doing"].startswith("~ losing measure.tcp")


def test_plan_reports_steps_in_the_chosen_language_and_missing_phrases_in_english(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fall back to English for a reason that the language lacks."""
    monkeypatch.setattr("iolab.cli.plan.open_agent", lambda: nullcontext(None))
    monkeypatch.setattr("iolab.cli.plan.planning_facts", lambda _agent, **_: FACTS)
    assert run(["plan", written(VM), "--lang", "xx"]) == ExitCode.HOST_CANNOT
    printed = capsys.readouterr()
    assert "~ Two namespaces: 0 trials\n" in printed.out
    assert "  cannot run on this host: ~ tcp links.lan.mtu=1500 + 1: " in printed.out
    assert "planning: no cell can run on this host (2 cells in total). " in printed.err


def test_run_reports_a_busy_host_in_the_chosen_language(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nest the phrase of the host."""
    holder = {"pid": 7, "lab": "a.yaml", "resources": [], "stopped": False}

    def refuse(_lab: str, _resources: object) -> None:
        raise Refused("lease.take", -32003, "host is held", {"holders": [holder]})

    busy = SimpleNamespace(lease=refuse, hello=SimpleNamespace(predecessors=()))
    monkeypatch.setattr("iolab.cli.runs.open_agent", lambda: nullcontext(busy))
    monkeypatch.setattr("iolab.cli.runs.planned", lambda _agents, _file, decide, **_: (decide(FACTS), {}))
    assert run(["run", written(GOOD), "--lang", "xx"]) == ExitCode.HOST_CANNOT
    assert capsys.readouterr().err == "iolab: ~ this host: labo a.yaml 7\n"


def test_doctor_reports_findings_in_the_chosen_language(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Translate its lines, and the sentences shared with reports."""
    finding = Finding("host", Grade.GOOD, (HostExamined(code="host-free"),))
    limited = Finding("SMT", Grade.LIMITED, (HostExamined(code="smt-on"),))
    monkeypatch.setattr("iolab.cli.host.open_agent", lambda _host: nullcontext(None))
    monkeypatch.setattr("iolab.cli.host.read_facts", lambda _agent: (FACTS, {}))
    monkeypatch.setattr("iolab.cli.host.examine", lambda _agent, _facts: [finding, limited])
    assert run(["doctor", "--lang", "xx"]) == ExitCode.DONE
    first, second = capsys.readouterr().out.splitlines()
    assert first == "~ bon host: ~ libre"
    assert second.startswith("~ note SMT: ")


@pytest.mark.parametrize("arguments", [("--lang", "xx", "--help"), ("--help", "--lang=xx")])
def test_help_is_in_the_requested_language(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Accept the option in any place; missing texts are English."""
    assert run([*arguments]) == ExitCode.DONE
    printed = capsys.readouterr().out
    assert "~ montrer" in printed
    assert "Language of the output: en, xx." in printed


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("plan", "--help", "--lang", "xx"), "~ montrer"),
        (("--lang", "xx", "image", "list", "--help"), "~ lister"),
        (("--lang", "xx", "list"), "~ rien dans runs"),
    ],
)
def test_language_option_works_before_and_after_the_command(
    arguments: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Accept the option before every command."""
    assert run([*arguments]) == ExitCode.DONE
    assert text in capsys.readouterr().out


def test_unknown_language_is_refused_with_the_available_ones(capsys: pytest.CaptureFixture[str]) -> None:
    """Refuse the language when the option is parsed, in English."""
    assert run(["--lang", "yy", "list"]) == ExitCode.INPUT_WRONG
    assert "unknown language 'yy'; available languages are en, xx" in capsys.readouterr().err


def test_language_option_does_not_affect_the_next_command_of_a_process(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Apply the option to one command only."""
    run(["check", written(GOOD), "--lang", "xx"])
    run(["check", written(GOOD)])
    assert "  2 cells, 1 block, seed " in capsys.readouterr().out
