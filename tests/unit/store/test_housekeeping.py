"""Renaming and removing runs: nothing but the run is touched, and runs that are written to are refused."""

import shutil
from pathlib import Path

import pytest
from tests.unit.store.examples import PLAN, WALL, record
from tests.unit.store.stored import Killed, content, copied

from iolab.errors import InputError, StoreError
from iolab.store import housekeeping
from iolab.store.folder import RunFolder, create_folder
from iolab.store.housekeeping import remove, rename
from iolab.store.labels import change_tags, read_label, set_note
from iolab.store.pack import pack
from iolab.store.read import find_runs, load_run
from iolab.store.records import SAMPLES


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Provide a run with a trial, in a folder of runs."""
    return made(tmp_path / "runs")


def made(parent: Path) -> Path:
    """Return a new run with a trial."""
    folder = create_folder(parent, PLAN.title, WALL)
    folder.write_decision("title: A plan\n", PLAN, {})
    folder.append_trial(record("k0"))
    folder.close()
    return folder.path


def tree(path: Path) -> set[str]:
    """Return the paths of everything below a folder."""
    return {str(each.relative_to(path)) for each in path.rglob("*")}


def test_renamed_run_keeps_its_start_time_and_its_records(run: Path) -> None:
    """Change only the title in the folder's name."""
    before = load_run(run)
    fresh = rename(run, "MTU & window: second")
    assert fresh == run.with_name("20260102T030405-mtu-window-second")
    assert load_run(fresh).trials == before.trials
    assert find_runs(run.parent) == [fresh]


@pytest.mark.parametrize("title", ["", "...", "../..", "日本"])
def test_title_without_letters_or_digits_is_refused(run: Path, title: str) -> None:
    """Leave the run where it is."""
    with pytest.raises(InputError, match="letters or digits"):
        rename(run, title)
    assert run.is_dir()


def test_rename_never_leaves_the_folder_of_the_run(run: Path) -> None:
    """Treat a path as a title."""
    assert rename(run, "../../etc/passwd").parent == run.parent


def test_rename_replaces_no_existing_entry(run: Path) -> None:
    """Refuse a name that is taken, even by a dangling symbolic link."""
    run.with_name("20260102T030405-taken").symlink_to("nowhere")
    with pytest.raises(InputError, match="does not exist yet"):
        rename(run, "taken")


def test_removed_run_leaves_nothing(run: Path) -> None:
    """Remove sealed and unsealed runs with their labels and reports."""
    set_note(run, "a note")
    (run / "report.html").write_text("page")
    pack(run)
    remove(run)
    assert tree(run.parent) == set()


@pytest.mark.parametrize(
    "change",
    [rename, lambda path, _: remove(path), set_note, lambda path, tag: change_tags(path, [tag], [])],
)
def test_run_that_is_written_to_is_refused(run: Path, change: object) -> None:
    """Change nothing while another process measures; the process is simulated by an open folder."""
    working = RunFolder(run)
    before = tree(run)
    with pytest.raises(StoreError, match="another iolab process"):
        change(run, "word")  # type: ignore[operator]
    working.close()
    assert tree(run) == before


def test_removal_does_not_follow_symbolic_links(run: Path, tmp_path: Path) -> None:
    """Remove links inside the run, and keep their targets."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("data")
    (run / SAMPLES / "link").symlink_to(outside)
    (run / SAMPLES / "file").symlink_to(outside / "kept")
    shutil.rmtree(run / SAMPLES)
    (run / SAMPLES).symlink_to(outside)
    with pytest.raises(InputError, match="samples"):
        remove(run)
    (run / SAMPLES).unlink()
    (run / "report.html").symlink_to(outside / "kept")
    remove(run)
    assert (outside / "kept").read_text() == "data"
    assert not run.exists()


def test_symbolic_link_to_a_run_is_neither_removed_nor_renamed(run: Path, tmp_path: Path) -> None:
    """Ask for the run itself."""
    link = tmp_path / "link"
    link.symlink_to(run)
    for change in (remove, lambda path: rename(path, "title")):
        with pytest.raises(InputError, match="symbolic link"):
            change(link)
    assert load_run(run).trials


def test_folder_with_content_of_others_is_not_removed(run: Path) -> None:
    """Protect a home folder into which a plan was copied, and notes next to the records."""
    (run / "thesis.tex").write_text("years of work")
    (run / "backup").mkdir()
    with pytest.raises(InputError, match=r"'backup', 'thesis\.tex'.*move the other content"):
        remove(run)
    assert (run / "thesis.tex").exists()


def test_folder_without_a_plan_and_revisions_are_not_removed(run: Path, tmp_path: Path) -> None:
    """Remove whole runs only."""
    revision = run / "revisions" / "001"
    revision.mkdir(parents=True)
    shutil.copy(run / "plan.json", revision)
    for path in (tmp_path, revision):
        with pytest.raises(InputError):
            remove(path)


def test_interrupted_removal_is_completed_by_the_next_removal(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill the removal before each deletion: the run is whole, or no command lists it."""
    other = made(run.parent)

    def killed(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(housekeeping, "_remove", killed)
    with pytest.raises(Killed):
        remove(run)
    assert find_runs(run.parent) == [other]
    monkeypatch.undo()
    monkeypatch.setattr(Path, "rmdir", killed)
    with pytest.raises(Killed):
        remove(other)
    assert find_runs(run.parent) == [other]
    monkeypatch.undo()
    remove(other)
    remove(made(run.parent))
    assert tree(run.parent) == set()


def test_removal_from_inside_the_run_removes_the_run(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolve `.` to the run's name."""
    monkeypatch.chdir(run)
    remove(Path())
    monkeypatch.undo()
    assert tree(run.parent) == set()


def test_label_is_stored_with_the_run(run: Path) -> None:
    """Keep note and tags independently of each other, of packing and of names."""
    assert read_label(run).tags == ()
    set_note(run, "first\nsecond \udc80")
    assert change_tags(run, ["b", "a", "a"], []).tags == ("a", "b")
    assert change_tags(run, ["c"], ["b"]).tags == ("a", "c")
    pack(run)
    label = read_label(rename(run, "new"))
    assert (label.note, label.tags) == ("first\nsecond \\udc80", ("a", "c"))


@pytest.mark.parametrize("tag", ["", "two words", "a,b", "a|b", "-x", "x" * 41, "a\x1b"])
def test_tag_that_a_filter_could_not_name_is_refused(run: Path, tag: str) -> None:
    """Allow no separators of filters and no spaces."""
    with pytest.raises(InputError, match="1 to 40"):
        change_tags(run, [tag], [])


def test_tag_that_the_run_lacks_cannot_be_removed(run: Path) -> None:
    """Name the tags of the run."""
    change_tags(run, ["lab7"], [])
    with pytest.raises(InputError, match="a tag of the run: lab7"):
        change_tags(run, [], ["lab8"])


@pytest.mark.parametrize(
    "text", ["", "[]", '{"schema": 2}', '{"schema": 1, "note": 1, "tags": []}', "[" * 9999]
)
def test_damaged_label_is_an_error_that_names_the_file(run: Path, text: str) -> None:
    """Say how to continue."""
    (run / "label.json").write_text(text)
    with pytest.raises(StoreError, match=r"label\.json.*restore"):
        read_label(run)


def test_label_changes_no_record(tmp_path: Path) -> None:
    """Compare all data that commands read before and after."""
    run = copied("schema-3-first-mixed", tmp_path)
    with (run / "trials.jsonl").open("a") as file:
        file.write('{"cut')
    before = content(run)
    set_note(run, "a note")
    assert content(run) == before
