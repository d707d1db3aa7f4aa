"""Users' job files for fio: read like fio, or refused with the line and a remedy."""

from pathlib import Path

import pytest

from iolab.errors import InputError
from iolab.experiment import Resolver, cells, load
from iolab.experiment.model.measures import DiskMeasure
from iolab.trial.disk.job_file import JobFileError, number, read_job, time_ns
from iolab.trial.disk.job_keys import with_table


def refusal(text: str, *replace: str) -> str:
    """Return the first problem of a job file."""
    with pytest.raises(JobFileError) as caught:
        read_job(text, replace)
    first = caught.value.problems[0]
    return " | ".join(map(str, (first.seen, first.allowed, first.advice)))


def test_indented_line_is_a_separate_option() -> None:
    """Read it like fio, not as a continuation, as ini parsers do."""
    text = "[mine]\nrw=write\n  filename=/var/tmp/elsewhere\n  exec_prerun=id > /var/tmp/ran-as\n"
    with pytest.raises(JobFileError) as caught:
        read_job(text)
    assert [str(one.seen) for one in caught.value.problems] == [
        "line 3 of the job, [mine]: filename=/var/tmp/elsewhere",
        "line 4 of the job, [mine]: exec_prerun=id > /var/tmp/ran-as",
    ]
    assert all("replace" in str(one.advice) for one in caught.value.problems)


@pytest.mark.parametrize(
    "line",
    ["filename=/dev/sda", "directory=/etc", "filename_format=x", "opendir=/", "exec_prerun=reboot", "exec_postrun=id",
     "ioengine=external:/tmp/x.so", "ioengine=/tmp/x.so", "ioengine=exec", "ioengine=net", "ioengine=http",
     "ioengine=rdma", "ioengine=filedelete", "write_bw_log=/etc/x", "write_lat_log", "read_iolog=/etc/passwd",
     "write_iolog=/etc/x", "merge_blktrace_file=/etc/x", "include /etc/x", "include=/etc/x", "includes",
     "size=$(reboot)", "bs=${BS}", "size=$ncpus", "mem=mmap:/etc/x", "mem=mmaphuge:/x", "mem=shmhuge",
     "ioscheduler=noop", "cgroup=x",
     "unlink=1", "verify_state_save=1", "verify_state_load=1", "verify_dump=1", "rw=trim", "rw=randtrim",
     "rw=trimwrite", "rw=randtrimwrite", "trim_percentage=5", "fill_device=1", "file_append=1", "create_only=1",
     "uid=0", "stats=0", "allow_file_create=1", "allow_mounted_write=1", "kb_base=1000", "profile=tiobench",
     "buffer_pattern='/etc/shadow'", "verify_pattern='/etc/shadow'", "zonemode=zbd", "replay_redirect=/dev/sda",
     "exit_what=all", "numjobs=0", "numjobs=100000", "iodepth=100000", "verify_async=100", "no_such_key=1", "rw",
     "rw=", "bssplit=", "bs=", "direct=yes", "rw=readfoo", "random_distribution=zipf", "runtime=1.5", "time_based",
     "wait_for=nobody"],
)  # fmt: skip
def test_job_option_that_names_a_location_or_program_or_file_is_refused(line: str) -> None:
    """Refuse options that name a place, start a program, write a file, or have an unlisted value."""
    assert refusal(f"[mine]\n{line}\nrw=read\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "0 sections"),
        ("[global]\nrw=read\n", "0 sections"),
        ("rw=read\n[a]\n", "a section before the first key"),
        ("[a\nrw=read\n", "alone on its line"),
        ("[a]x\nrw=read\n", "alone on its line"),
        ("[]\nrw=read\n", "alone on its line"),
        ("[a;b]\nrw=read\n", "alone on its line"),
        ("[globalwrite]\nrw=read\n[a]\n", "does not begin with global"),
        ("[Global]\nrw=read\n[a]\n", "does not begin with global"),
        ("[a]\nbssplit=4k/50:8k/50\nbssplit=4k/10:8k/90\n", "remove line 2 or line 3"),
        ("[a]\nbs= 4k\n", "bs=4k"),
        ("[a]\nrw = read\n", "rw=read"),
        ("[a]\nrw=read\x00filename=/x\n", "control characters"),
        ("[a]\nrw=read\x0bfilename=/x\n", "control characters"),
        ("[a]\nrw=read\x85filename=/x\n", "rw: read, write"),
        ("[a]\ndirect=1" + " " * 4090 + "filename=/x\n", "at most 4000 bytes"),
        ("[a]\nexitall\n[b]\nnew_group\n", "exitall and new_group"),
    ],
)
def test_ambiguous_job_syntax_is_refused(text: str, said: str) -> None:
    """Refuse names that fio reads as [global], blanks within a value, and lines that fio truncates."""
    assert said in refusal(text)


def test_comments_and_blanks_are_read_as_by_fio() -> None:
    """Accept `;` and `#` anywhere, Windows line ends, and leading blanks."""
    job = read_job(
        "; first\n# second é\n\t[ a  b ] ; third\r\n  rw=read # fourth\r\n\n bs =4k;fifth\n  [b]\n"
    )
    assert [(one.name, dict(one.options)) for one in job.sections] == [
        ("a b", {"rw": "read", "bs": "4k"}),
        ("b", {}),
    ]


def test_section_inherits_the_global_options_before_it() -> None:
    """Add a second [global] to the first, for later sections only; prefer a section's own options."""
    job = read_job(
        "[global]\nbs=4k\ndirect=1\nstonewall\n[a]\nblocksize=8k\n[global]\nreadwrite=write\nbuffered=1\n[a]\n"
    )
    first, second = job.sections
    assert dict(first.options) == {"direct": "1", "stonewall": None, "bs": "8k"}
    assert dict(second.options) == {
        "bs": "4k",
        "direct": "1",
        "stonewall": None,
        "rw": "write",
        "buffered": "1",
    }
    assert [first.name, second.name] == ["a", "a#2"]


def test_sections_with_equal_names_are_numbered_in_the_report() -> None:
    """Keep their figures apart."""
    job = read_job("[a]\n[a]\n[a]\n[b  c]\n[b c]\n")
    assert [one.name for one in job.sections] == ["a", "a#2", "a#3", "b c", "b c#2"]


def test_later_of_two_lines_with_one_key_takes_precedence() -> None:
    """Follow fio, also for different spellings of a key."""
    job = read_job("[a]\nbs=4k\ndirect=1\nblocksize=8k\nbuffered=1\ndirect=1\n")
    assert list(job.sections[0].options.items()) == [("bs", "8k"), ("buffered", "1"), ("direct", "1")]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            "prioclass=1",
            "prioclass: 0 (none), 2 (best effort) or 3 (idle); not 1, because fio runs without CAP_SYS_NICE",
        ),
        ("prioclass=4", "prioclass: 0 (none), 2 (best effort) or 3 (idle)"),
        ("prio=8", "prio: 0 (the highest) to 7"),
        ("cmdprio_percentage=20\ncmdprio_class=1", "cmdprio_class: 2 (best effort) or 3 (idle); not 1"),
        ("cmdprio_percentage=101\ncmdprio_class=2", "cmdprio_percentage: a percentage"),
        ("cmdprio_percentage=20", "cmdprio_class=2 or 3 as well, because fio's default class is 1"),
    ],
)
def test_privileged_io_priority_is_refused_with_the_reason(lines: str, said: str) -> None:
    """Refuse real-time I/O, which needs CAP_SYS_NICE and which fio uses for requests without a class."""
    assert said in refusal(f"[a]\nrw=randread\n{lines}\n")


def test_unprivileged_io_priorities_are_passed_on() -> None:
    """Accept best effort and idle; leave out keys in `replace`."""
    text = "[a]\nprioclass=3\nprio=7\ncmdprio_percentage=20\ncmdprio_class=2\ncmdprio=0\n"
    (section,) = read_job(text).sections
    assert dict(section.options) == {
        "prioclass": "3",
        "prio": "7",
        "cmdprio_percentage": "20",
        "cmdprio_class": "2",
        "cmdprio": "0",
    }
    replaced = read_job("[a]\nprioclass=1\ncmdprio_percentage=20\n", ("prioclass", "cmdprio_percentage"))
    assert [one.key for one in replaced.replaced] == ["prioclass", "cmdprio_percentage"]


def test_options_listed_in_replace_are_set_by_iolab() -> None:
    """List the original values in the report."""
    text = "[global]\nfilename=${DEVICE}\nexec_prerun=id\n[a]\nsize=10g\nruntime=1000000\nrw=read\n"
    job = read_job(text, ("filename", "exec_prerun", "size", "runtime"))
    assert [(one.section, one.key, one.value) for one in job.replaced] == [
        ("global", "filename", "${DEVICE}"),
        ("global", "exec_prerun", "id"),
        ("a", "size", "10g"),
        ("a", "runtime", "1000000"),
    ]
    assert list(job.sections[0].options) == ["size", "runtime", "rw"]


def test_report_options_of_fio_are_ignored() -> None:
    """Show a row per section, whatever they set."""
    job = read_job(
        "[a]\nname=x\ngroup_reporting=0\npercentile_list=1:2\ndisk_util=0\ndescription=any $text\nrw=read\n"
    )
    assert dict(job.sections[0].options) == {"rw": "read"}


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("4k", 4096), ("4Ki", 4096), ("4kB", 4096), ("4KiB", 4000), ("1m", 1 << 20), ("7", 7)],
)
def test_size_units_in_a_job_file_are_those_of_fio(text: str, bytes_: int) -> None:
    """Read kib as a thousand, as fio 3.33 does."""
    assert number(text) == bytes_


def test_times_without_a_unit_in_a_job_file_are_seconds() -> None:
    """Follow runtime and ramp_time."""
    assert [time_ns(text) for text in ("2", "2s", "5ms", "1m")] == [
        2 * 10**9,
        2 * 10**9,
        5 * 10**6,
        60 * 10**9,
    ]


LAB = """
lab:
  machines: {a: {kind: netns, disks: [{volume: v}]}}
  volumes: {v: {size: 16M}}
measure:
  own: {kind: disk, program: fio, on: a, size: 4M, fio: FIO}
"""


def test_job_file_is_read_relative_to_the_experiment(tmp_path: Path) -> None:
    """Include its contents in the trial key; report its errors before the run."""
    (tmp_path / "own.fio").write_text("[a]\nrw=read\nfilename=/dev/sda\n")
    (tmp_path / "lab.yaml").write_text(LAB.replace("FIO", "{job_file: own.fio, replace: [filename]}"))
    experiment = load(tmp_path / "lab.yaml")
    measure = Resolver(experiment).setup(next(cells(experiment))).measures["own"]
    assert isinstance(measure, DiskMeasure)
    assert measure.fio is not None
    assert measure.fio.job_text == "[a]\nrw=read\nfilename=/dev/sda\n"
    for fio, said in (
        ("{job_file: own.fio}", "line 3 of the job, .a.: filename=/dev/sda"),
        ("{job_file: none.fio}", "no such file"),
        ("{job_file: own.fio, job: x}", "one of these two keys"),
        ("{job_file: own.fio, replace: [filenam]}", "a key of the fio job that iolab can set instead"),
    ):
        (tmp_path / "lab.yaml").write_text(LAB.replace("FIO", fio))
        with pytest.raises(InputError, match=said):
            load(tmp_path / "lab.yaml")


def test_disk_measurement_page_has_the_table_of_all_job_keys() -> None:
    """Regenerate it by `python -m iolab.trial.disk.job_keys FILE`."""
    page = Path("docs/how-to/measure-a-disk.md").read_text()
    assert with_table(page) == page
