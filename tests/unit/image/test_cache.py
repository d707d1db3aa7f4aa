"""The cache of images: what is complete is found, shared layers go with the last image, builds exclude each other."""

import multiprocessing
from pathlib import Path

import pytest
from tests.unit.image.cached import add

from iolab.errors import InputError
from iolab.image.cache import UNFINISHED, Cache


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """An empty cache."""
    return Cache(tmp_path / "cache")


def test_an_image_is_read_back_as_it_was_written(cache: Cache) -> None:
    """Manifest, packages, size."""
    image = add(cache, "abc")
    assert image.manifest.features == ("link:vlan",)
    assert image.packages == ("fio=3", "iperf3=3.12")
    assert image.size_bytes == 1000
    assert image.xen is None


def test_the_newest_image_comes_first(cache: Cache) -> None:
    """By date of building, not by name."""
    add(cache, "aa", built="2026-01-01")
    add(cache, "bb", built="2026-01-03")
    add(cache, "cc", built="2026-01-02")
    assert [image.manifest.digest for image in cache.list_images()] == ["bb", "cc", "aa"]


def test_a_half_made_image_is_none(cache: Cache) -> None:
    """A folder gets its name when the block ends well; when it fails, nothing stays."""

    class DiskFullError(Exception):
        pass

    def fill() -> None:
        with cache.new_folder(cache.images / "abc") as folder:
            (folder / "vmlinux").write_bytes(b"half")
            assert cache.list_images() == ()
            raise DiskFullError

    with pytest.raises(DiskFullError):
        fill()
    assert list(cache.images.iterdir()) == []


def test_what_a_killed_build_left_is_deleted_by_the_next(cache: Cache) -> None:
    """Only what is unfinished goes."""
    add(cache, "abc")
    (cache.images / f"{UNFINISHED}x" / "deep").mkdir(parents=True)
    (cache.layers / f"{UNFINISHED}old-r").mkdir()
    with cache.locked(print):
        pass
    assert [path.name for path in cache.images.iterdir()] == ["abc"]
    assert sorted(path.name for path in cache.layers.iterdir()) == ["k", "r"]


@pytest.mark.parametrize("text", ["", "{}", '{"schema": 2}', "\xff", '{"digest": 3}'])
def test_a_folder_with_a_damaged_manifest_is_no_image(cache: Cache, text: str) -> None:
    """It is passed over, and built again when it is wanted."""
    image = add(cache, "abc")
    (image.folder / "image.json").write_text(text, encoding="latin-1")
    assert cache.find("abc") is None
    assert cache.list_images() == ()


def test_a_rebuilt_image_takes_the_place_of_the_old(cache: Cache) -> None:
    """One folder per digest; the old content is gone."""
    add(cache, "abc", built="2026-01-01")
    add(cache, "abc", built="2026-02-02")
    (image,) = cache.list_images()
    assert image.manifest.built == "2026-02-02"
    assert [path.name for path in cache.images.iterdir()] == ["abc"]


def test_a_layer_stays_while_an_image_needs_it(cache: Cache) -> None:
    """The kernel is shared by two flavours and goes with the second; what is freed counts shared files once."""
    first, second = add(cache, "aa", root="r1"), add(cache, "bb", flavour="xen", root="r2")
    assert cache.remove((first,)) >= 1000
    assert sorted(path.name for path in cache.layers.iterdir()) == ["k", "r2"]
    cache.remove((second,))
    assert list(cache.layers.iterdir()) == []
    assert list(cache.images.iterdir()) == []


def test_images_are_chosen_by_flavour_or_beginning_of_their_digest(cache: Cache) -> None:
    """A flavour means all of its images; none is chosen twice."""
    add(cache, "a1"), add(cache, "a2"), add(cache, "b1", flavour="xen")
    assert {image.manifest.digest for image in cache.choose(("linux", "a1"))} == {"a1", "a2"}
    assert {image.manifest.digest for image in cache.choose(("b",))} == {"b1"}


def test_unknown_names_are_all_told_at_once(cache: Cache) -> None:
    """With what is there."""
    add(cache, "a1")
    with pytest.raises(InputError) as raised:
        cache.choose(("x", "", "a1"))
    assert len(raised.value.problems) == 2
    assert "linux (a1)" in str(raised.value)


def hold(
    folder: Path, held: "multiprocessing.synchronize.Event", release: "multiprocessing.synchronize.Event"
) -> None:
    """Hold the lock in another process."""
    with Cache(folder).locked(print):
        held.set()
        release.wait(20)


def test_a_second_build_waits_for_the_first(cache: Cache) -> None:
    """It says so, and goes on when the first has ended."""
    context = multiprocessing.get_context("fork")
    held, release = context.Event(), context.Event()
    other = context.Process(target=hold, args=(cache.folder, held, release))
    other.start()
    assert held.wait(20)
    told: list[str] = []

    def waits(text: str) -> None:
        told.append(text)
        release.set()

    with cache.locked(waits):
        other.join(20)
    assert told == ["another build is at work; waiting for its end"]
    assert other.exitcode == 0
