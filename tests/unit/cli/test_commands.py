"""The commands that need no lab: exit codes, messages for wrong input, and that nothing ends in a traceback."""

import json
import re
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.unit.cli.examples import FACTS, GOOD, VM, written
from tests.unit.store.examples import PLAN, record

from iolab.cli.main import run
from iolab.cli.screen import console
from iolab.errors import AgentError, ExitCode
from iolab.results.trial import Status
from iolab.store.folder import create_folder


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)


def test_check_says_what_a_correct_file_means(capsys: pytest.CaptureFixture[str]) -> None:
    """Cells, blocks, factors, on standard output; exit code 0."""
    assert run(["check", written(GOOD)]) == ExitCode.DONE
    printed = capsys.readouterr().out
    assert "links.lan.mtu: 1500, 9000" in printed
    assert "2 cells" in printed


def test_a_wrong_word_is_named_with_its_line_and_the_nearest_right_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 2; file, line, what was seen, what was probably meant."""
    assert run(["check", written(GOOD.replace("kind: stream", "kind: steam"))]) == ExitCode.INPUT_WRONG
    complaint = capsys.readouterr().err
    assert "lab.yaml:7" in complaint
    assert "steam" in complaint
    assert "stream" in complaint


def test_parts_that_do_not_fit_together_are_told_with_their_line(capsys: pytest.CaptureFixture[str]) -> None:
    """What no host could build is wrong input when it is checked, not only when it is planned."""
    text = GOOD.replace("near: {kind: netns}", "near: {kind: host, ssh: pc6}")
    assert run(["check", written(text)]) == ExitCode.INPUT_WRONG
    told = "lab.yaml:5: connecting ports of lab.links.lan.ends: saw near.eth0 on near, far.eth0 on this host"
    assert told in capsys.readouterr().err


def test_every_error_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Three mistakes in one file are three lines."""
    text = GOOD.replace("to: far", "to: nowhere, windw: 4").replace("kind: netns}, far", "kind: netms}, far")
    assert run(["check", written(text.replace("[1500, 9000]", "[1500, lots]"))]) == ExitCode.INPUT_WRONG
    complaint = capsys.readouterr().err
    assert [word for word in ("nowhere", "windw", "netms", "lots") if word not in complaint] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "absent.yaml"],
        ["check", "."],
        ["run", "absent.yaml"],
        ["plan", "absent.yaml"],
        ["show", "absent"],
        ["report", "absent"],
        ["compare", "absent", "absent"],
        ["resume", "absent"],
        ["extend", "absent", "absent.yaml"],
        ["run"],
        ["frobnicate"],
        ["report", "absent", "--format", "pdf"],
        ["run", "x.yaml", "--blocks", "0"],
    ],
    ids=" ".join,
)
def test_wrong_input_ends_with_code_2_and_no_traceback(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is missing or misspelt, the command says so in words."""
    assert run(arguments) == ExitCode.INPUT_WRONG
    captured = capsys.readouterr()
    assert captured.err.strip()
    assert "Traceback" not in captured.err + captured.out
    assert "internal error" not in captured.err


@pytest.mark.parametrize(
    "content",
    [
        b"\x00" * 1000,
        b"\xff\xfe\xfa" * 400_000,
        b"[" * 500_000,
        b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
        b"{" * 50_000,
        b"x" * 1_000_000,
        b"- " * 300_000,
        b"",
        b"%YAML 9.9\n---\n",
    ],
    ids=[
        "nul",
        "not utf-8",
        "deep list",
        "aliases",
        "deep map",
        "one word",
        "dashes",
        "empty",
        "future yaml",
    ],
)
def test_garbage_is_refused_in_words(content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 for anything that is no experiment."""
    Path("garbage.yaml").write_bytes(content)
    assert run(["check", "garbage.yaml"]) == ExitCode.INPUT_WRONG
    assert "garbage.yaml" in capsys.readouterr().err


def test_the_schema_is_json_for_editors(capsys: pytest.CaptureFixture[str]) -> None:
    """It is a JSON Schema and knows the language's top keys."""
    assert run(["schema"]) == ExitCode.DONE
    assert {"title", "lab", "measure"} <= set(json.loads(capsys.readouterr().out)["properties"])


def test_new_writes_a_correct_experiment_and_overwrites_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """What it writes passes check; a second time the file is refused."""
    assert run(["new", "mine"]) == ExitCode.DONE
    assert run(["check", "mine.yaml"]) == ExitCode.DONE
    assert run(["new", "mine"]) == ExitCode.INPUT_WRONG
    assert "saw an existing file" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", ".", "..", "/", "a\0b"])
def test_new_refuses_what_names_no_file(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With an example of a name; nothing is written."""
    before = sorted(Path().iterdir())
    assert run(["new", name]) == ExitCode.INPUT_WRONG
    assert "reading the name of the new experiment" in capsys.readouterr().err
    assert sorted(Path().iterdir()) == before


def test_what_the_system_refuses_without_a_file_is_said_with_its_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """ "Invalid argument" alone leads nowhere."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr("iolab.cli.main.app", refuse)
    assert run(["doctor"]) == ExitCode.HOST_CANNOT
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("iolab: `iolab doctor` failed at test_commands.py:")


def test_cleaning_another_host_is_not_yet_possible_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 3: the host cannot do it."""
    assert run(["clean", "--host", "pc6"]) == ExitCode.HOST_CANNOT
    assert "pc6" in capsys.readouterr().err


def test_a_missing_agent_is_code_3_with_advice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message says where it was looked for and what to do."""
    monkeypatch.setenv("IOLAB_AGENT", "/nowhere/iolab-agent")
    assert run(["doctor"]) == AgentError.exit_code
    assert "make setup" in capsys.readouterr().err


def test_a_word_between_colons_is_no_picture(capsys: pytest.CaptureFixture[str]) -> None:
    """Names of resources hold colons; a machine may be called `a`."""
    console().print("making setting:a:net.ipv4.tcp_rmem")
    assert "setting:a:net" in capsys.readouterr().out


def test_several_files_are_checked_and_every_error_of_all_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The correct one is described, the others' lines are named."""
    wrong = [written(GOOD.replace("stream", word), f"{word}.yaml") for word in ("steam", "dream")]
    assert run(["check", written(GOOD), *wrong]) == ExitCode.INPUT_WRONG
    seen = capsys.readouterr()
    assert "lab.yaml: Two namespaces" in seen.out
    assert "steam.yaml:7" in seen.err
    assert "dream.yaml:7" in seen.err


def test_check_as_json_holds_what_is_right_and_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    """For editors and CI: the exit code is that of the words."""
    names = [written(GOOD), written(GOOD.replace("stream", "steam"), "wrong.yaml")]
    assert run(["check", "--json", *names]) == ExitCode.INPUT_WRONG
    told = json.loads(capsys.readouterr().out)
    assert told["correct"] == [
        {
            "file": "lab.yaml",
            "title": "Two namespaces",
            "factors": {"links.lan.mtu": ["1500", "9000"]},
            "cells": 2,
            "blocks": 1,
            "seed": 1,
        }
    ]
    assert [problem["where"] for problem in told["problems"]] == ["wrong.yaml:7"]
    assert run(["check", "--json", names[0]]) == ExitCode.DONE


def test_a_list_says_how_trials_ended_and_which_folders_are_damaged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Bytes that are not UTF-8, lists in lists, and other types: none of them hides the other runs."""
    for name, plan in (
        ("0-a", b"\xff\xfe"),
        ("0-b", b"[" * 100_000),
        ("0-c", b'{"steps": 7}'),
        ("0-d", b"null"),
    ):
        folder = Path("runs", name)
        folder.mkdir(parents=True)
        (folder / "plan.json").write_bytes(plan)
        (folder / "facts.json").write_text("{}")
    whole = create_folder(Path("runs"), "whole", datetime(2026, 1, 1, tzinfo=UTC))
    whole.write_decision("title: x\n", PLAN, {})
    for key, status in (("k0", Status.FAILED), ("k1", Status.OK)):
        whole.append_trial(record(key, status=status))
    whole.close()
    assert run(["list"]) == ExitCode.DONE
    *_, last = lines = capsys.readouterr().out.splitlines()
    assert ["unreadable" in line for line in lines] == [True, True, True, True, False]
    assert "complete  2 trials: 1 failed, 1 ok  A plan" in last
    assert run(["list", "--json"]) == ExitCode.DONE
    told = json.loads(capsys.readouterr().out)["runs"]
    assert [one["status"] for one in told] == ["unreadable"] * 4 + ["complete"]
    assert told[-1]["trials"] == {"failed": 1, "ok": 1}


def test_no_runs_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    """An empty folder lists nothing."""
    assert run(["list"]) == ExitCode.DONE
    assert "no runs" in capsys.readouterr().out


def test_a_plan_of_which_nothing_can_run_ends_with_code_3_and_says_why(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script must not take it for a plan; `--json` prints the document all the same."""
    monkeypatch.setattr("iolab.cli.plan.open_agent", lambda: nullcontext(None))
    monkeypatch.setattr("iolab.cli.plan.planning_facts", lambda _agent, **_: FACTS)
    assert run(["plan", written(VM)]) == ExitCode.HOST_CANNOT
    printed = capsys.readouterr()
    assert (
        "no cell can run on this host (2 cells in total). First reason: tcp links.lan.mtu=1500: "
        in printed.err
    )
    assert "cannot run on this host: tcp links.lan.mtu=1500 and 1 more cells: " in printed.out
    assert run(["plan", written(VM), "--json"]) == ExitCode.HOST_CANNOT
    assert json.loads(capsys.readouterr().out)["steps"] == []


REMOTE = """
title: One host
lab:
  machines:
    pc6: {kind: host, ssh: pc6.lab}
    near: {kind: netns, on: pc6}
    far: {kind: netns, on: pc6}
  links: {lan: {ends: [near.eth0, far.eth0]}}
measure:
  tcp: {kind: stream, from: near, to: far}
"""


def test_a_plan_names_the_hosts_whose_cpus_it_does_not_know(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks none of them; the run does, and may pin to other CPUs."""
    monkeypatch.setattr("iolab.cli.plan.open_agent", lambda: nullcontext(None))
    monkeypatch.setattr("iolab.cli.plan.planning_facts", lambda _agent, **_: FACTS)
    run(["plan", written(REMOTE)])
    assert "the CPUs of pc6 are unknown before the run" in capsys.readouterr().out
    run(["plan", written(REMOTE), "--json"])
    assert json.loads(capsys.readouterr().out)["hosts_not_asked"] == ["pc6"]
    run(["plan", written(GOOD)])
    assert "unknown before the run" not in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"schema": 3}'])
def test_a_damaged_plan_is_told_in_words(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """list goes on with the other runs, show ends with code 3; neither speaks of exceptions."""
    folder = Path("runs/20260101T000000-x")
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(text)
    (folder / "facts.json").write_text("{}")
    assert run(["list"]) == ExitCode.DONE
    assert run(["show", str(folder)]) == ExitCode.HOST_CANNOT
    printed = capsys.readouterr()
    for said in (printed.out, printed.err):
        assert "cannot read plan.json" in said
        assert "Error" not in said


@pytest.mark.parametrize("command", ["check", "plan", "run"])
def test_every_line_of_problems_begins_with_file_and_line(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As compilers write them, so that an editor can go there: the first one too, and what no line is to blame for."""
    wrong = GOOD.replace("kind: stream", "kind: steam").replace("[1500, 9000]", "[1500, lots]")
    for text, least in ((wrong, 2), ("", 1), ("#" * 70_000, 1), (GOOD.partition("measure:")[0], 1)):
        assert run([command, written(text)]) == ExitCode.INPUT_WRONG
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) >= least
        for line in lines:
            assert re.match(r"lab\.yaml:[1-9][0-9]*: ", line), line
