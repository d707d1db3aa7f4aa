"""`iolab image`: exit codes and messages, in a temporary cache."""

import json
import os
import time
from pathlib import Path

import pytest
from tests.unit.image.cached import add

from iolab.cli.main import run
from iolab.errors import ExitCode
from iolab.image import Cache
from iolab.image.cache import UNUSED_S
from iolab.image.programs import demand, pipe
from iolab.image.programs import run as run_program


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """Provide this test's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return Cache(tmp_path / "iolab")


def test_build_refuses_an_unknown_flavour_before_building_anything(
    capsys: pytest.CaptureFixture[str], cache: Cache
) -> None:
    """List the allowed flavours; build no other flavour of the command."""
    assert run(["image", "build", "linux", "windows"]) == ExitCode.INPUT_WRONG
    complaint = capsys.readouterr().err
    assert "'windows'" in complaint
    assert "linux, linux-cloud, linux-backports, nested, xen, host, qemu" in complaint
    assert not cache.folder.exists()


def test_image_list_of_an_empty_cache_shows_the_build_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit with code 0."""
    assert run(["image", "list"]) == ExitCode.DONE
    assert "run `iolab image build` to build one" in capsys.readouterr().out


def test_image_list_is_printed_as_a_table_or_as_json(
    capsys: pytest.CaptureFixture[str], cache: Cache
) -> None:
    """Print flavour and digest in the table, and the whole manifest in JSON."""
    image = add(cache, "abc")
    assert run(["image", "list"]) == ExitCode.DONE
    assert "abc" in capsys.readouterr().out
    assert run(["image", "list", "--json"]) == ExitCode.DONE
    document = json.loads(capsys.readouterr().out)
    assert document["images"][0]["folder"] == str(image.folder)
    assert document["images"][0]["features"] == ["link:vlan"]


def test_image_remove_deletes_images_by_name(capsys: pytest.CaptureFixture[str], cache: Cache) -> None:
    """Print the freed space; remove nothing for an unknown name."""
    add(cache, "abc"), add(cache, "def", flavour="xen")
    assert run(["image", "remove", "xen", "nothing"]) == ExitCode.INPUT_WRONG
    assert len(cache.list_images()) == 2
    assert run(["image", "remove", "xen"]) == ExitCode.DONE
    assert "freed" in capsys.readouterr().out
    assert [image.manifest.digest for image in cache.list_images()] == ["abc"]
    assert run(["image", "remove", "--all"]) == ExitCode.DONE
    assert cache.list_images() == ()


def test_image_remove_with_a_flavour_deletes_all_images_of_the_flavour(cache: Cache) -> None:
    """Include digests of older recipes and agents."""
    add(cache, "abc"), add(cache, "def", built="2025-01-01"), add(cache, "123", flavour="xen")
    assert run(["image", "remove", "linux"]) == ExitCode.DONE
    assert [image.manifest.flavour for image in cache.list_images()] == ["xen"]


def test_build_deletes_images_that_were_unused_for_a_month(
    capsys: pytest.CaptureFixture[str], cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Report it; keep the requested image, and one of a running guest."""
    asked, used, unused = add(cache, "abc"), add(cache, "def", root="r2"), add(cache, "123", root="r3")
    for image in (asked, used, unused):
        os.utime(image.folder, times=(time.time() - UNUSED_S - 60,) * 2)
    used.mark_used()
    monkeypatch.setattr("iolab.cli.image.build", lambda *_, **__: asked)
    assert run(["image", "build", "linux"]) == ExitCode.DONE
    assert "removed linux 123" in capsys.readouterr().err
    assert {image.manifest.digest for image in cache.list_images()} == {"abc", "def"}
    assert not (cache.layers / "r3").exists()


@pytest.mark.parametrize("arguments", [[], ["linux", "--all"]])
def test_remove_needs_either_image_names_or_the_option_all(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Refuse neither and both."""
    assert run(["image", "remove", *arguments]) == ExitCode.INPUT_WRONG
    assert "image names or --all" in capsys.readouterr().err


def test_missing_programs_are_reported_with_their_packages() -> None:
    """List all of them at once, with Debian package names."""
    with pytest.raises(
        Exception, match=r"no mksquashfs-x, depmod-x.*install the Debian packages depmod-x mksquashfs-x"
    ):
        demand(["sh", "mksquashfs-x", "depmod-x"], "building")


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("echo gone wrong >&2; exit 3", "status 3: gone wrong"),
        ("exit 4", "status 4: the program printed nothing"),
        ("echo 'E: Temporary failure resolving x'; exit 100", "check the network connection"),
        ("echo 'write: No space left on device'; exit 1", "free some disk space in the cache folder"),
    ],
)
def test_failed_program_is_reported_with_its_last_output(script: str, told: str) -> None:
    """Add a remedy if it is known."""
    with pytest.raises(Exception, match=told):
        run_program(["sh", "-c", script], "trying")


@pytest.mark.parametrize(("first", "second"), [("exit 7", "cat"), ("echo hello", "cat >&2; exit 7")])
def test_pipe_fails_if_either_program_fails(first: str, second: str, tmp_path: Path) -> None:
    """Refuse a partial root from a failed program."""
    with pytest.raises(Exception, match="status 7"):
        pipe(["sh", "-c", first], ["sh", "-c", second], "trying", tmp_path / "log")
