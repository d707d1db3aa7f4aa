"""The recipe, and the digests that identify an image."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.image.cached import add

from iolab.errors import InputError
from iolab.image.build import built_names, find
from iolab.image.cache import Cache, Image
from iolab.image.recipe import RECIPE, Recipe, added_packages, name_layers, read_recipe, with_packages
from iolab.registry.images import image_name
from iolab.registry.registry import own_guest_programs, own_programs


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """Provide an empty cache."""
    return Cache(tmp_path / "cache")


@pytest.fixture
def recipe() -> Recipe:
    """Return the recipe of the package."""
    return read_recipe()


def test_packaged_recipe_equals_the_recipe_of_the_repository() -> None:
    """Compare the two copies."""
    assert RECIPE.read_bytes() == (Path(__file__).parents[3] / "guest/recipe.toml").read_bytes()


def test_every_flavour_contains_the_measurement_programs(recipe: Recipe) -> None:
    """Check the programs that trials need."""
    for flavour in recipe.flavours:
        assert {"iperf3", "fio", "iproute2", "ethtool", "kmod", "mount", "open-iscsi", "tgt"} <= set(
            flavour.packages
        )
    assert recipe.flavour("xen").xen is not None
    assert "qemu-system-x86" in recipe.flavour("nested").packages


def test_guest_programs_of_plugins_are_added_to_a_flavour(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Include those of iolab's own rows, so that nothing is added without a plugin."""
    linux = recipe.flavour("linux")
    assert set(own_guest_programs().values()) <= set(linux.packages)
    monkeypatch.setattr("iolab.image.recipe.guest_programs", own_guest_programs)
    assert added_packages(linux) == ()
    monkeypatch.setattr(
        "iolab.image.recipe.guest_programs", lambda: {**own_guest_programs(), "netperf": "netperf"}
    )
    assert added_packages(linux) == ("netperf",)
    both = [name_layers(recipe, one, "bookworm", "a") for one in (linux, with_packages(linux, ["netperf"]))]
    assert both[0].root != both[1].root


def test_image_is_found_with_and_without_plugin_programs(
    recipe: Recipe, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep images usable after installing or removing a plugin; prefer one with its programs."""
    linux = recipe.flavour("linux")

    def build(built: str, *added: str) -> Image:
        digests = name_layers(recipe, with_packages(linux, added), "bookworm", "a")
        return add(cache, digests.image, root=digests.root, built=built, added=added)

    with_netperf = build("2026-01-01", "netperf")
    monkeypatch.setattr("iolab.image.recipe.guest_programs", own_guest_programs)
    assert find("linux", cache=cache) == with_netperf
    plain = build("2026-01-02")
    assert find("linux", cache=cache) == plain
    monkeypatch.setattr(
        "iolab.image.recipe.guest_programs", lambda: {**own_guest_programs(), "netperf": "netperf"}
    )
    assert find("linux", cache=cache) == with_netperf


def test_program_requirements_file_agrees_with_the_program_rows() -> None:
    """Compare them, because programs are installed before iolab."""
    text = (Path(__file__).parents[3] / "requirements/programs.txt").read_text()
    listed = [line.partition(" ") for line in text.splitlines() if not line.startswith("#")]
    assert {program: package for program, _, package in listed} == own_programs()


def test_unknown_flavour_is_refused_with_the_known_flavours(recipe: Recipe) -> None:
    """Exit with code 2 and the names."""
    with pytest.raises(InputError, match="'bsd'; allowed: linux, linux-cloud, linux-backports, nested, xen"):
        recipe.flavour("bsd")


def test_new_agent_gives_a_new_image_with_the_same_layers(recipe: Recipe) -> None:
    """Need only seconds, and no network."""
    one, two = (name_layers(recipe, recipe.flavour("linux"), "bookworm", agent) for agent in "ab")
    assert (one.kernel, one.root) == (two.kernel, two.root)
    assert one.image != two.image


def test_flavours_share_the_kernel_layer(recipe: Recipe) -> None:
    """Use different roots."""
    linux, xen = (name_layers(recipe, recipe.flavour(name), "bookworm", "a") for name in ("linux", "xen"))
    assert linux.kernel == xen.kernel
    assert linux.root != xen.root


@pytest.mark.parametrize(
    "change", [{"format": 99}, {"kernel_package": "linux-image-rt-amd64"}, {"early_modules": ("virtio_pci",)}]
)
def test_recipe_change_gives_a_new_image_digest(recipe: Recipe, change: dict[str, Any]) -> None:
    """Include the release of Debian."""
    flavour = recipe.flavour("linux")
    before = name_layers(recipe, flavour, "bookworm", "a")
    changed = replace(recipe, **change)
    assert name_layers(changed, flavour, "bookworm", "a").image != before.image
    assert name_layers(recipe, flavour, "trixie", "a").image != before.image


def test_new_feature_module_gives_a_new_kernel_layer(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change the kernel layer, because an older image does not know the feature."""
    linux = recipe.flavour("linux")
    before = name_layers(recipe, linux, "bookworm", "0")
    monkeypatch.setattr("iolab.image.recipe.FEATURE_MODULES", {"nic:other": "other"})
    after = name_layers(recipe, linux, "bookworm", "0")
    assert after.kernel != before.kernel
    assert after.root == before.root


def test_packages_in_an_image_name_are_added_to_its_flavour(recipe: Recipe) -> None:
    """Sort them, so that one image matches any order; keep the flavour's kernel layer."""
    one, other = (
        recipe.flavour("linux:wrk,nginx-light"),
        recipe.flavour(image_name("linux:nginx-light", ["wrk"])),
    )
    assert one == other
    assert one.name == "linux:nginx-light,wrk"
    assert {"nginx-light", "wrk", "iperf3"} <= set(one.packages)
    plain, more = (name_layers(recipe, each, "bookworm", "a") for each in (recipe.flavour("linux"), one))
    assert (plain.kernel == more.kernel, plain.root == more.root, plain.image == more.image) == (
        True,
        False,
        False,
    )
    with pytest.raises(InputError, match="'-o'"):
        recipe.flavour("linux:-o,wrk")


def test_flavours_with_different_kernels_share_the_root_layer(recipe: Recipe) -> None:
    """Compare only kernels; each kernel is a separate layer."""
    names = ("linux", "linux-cloud", "linux-backports")
    layers = [name_layers(recipe, recipe.flavour(name), "bookworm", "a") for name in names]
    assert len({each.root for each in layers}) == 1
    assert len({each.kernel for each in layers}) == len(names)


def test_image_with_additional_packages_is_listed_by_its_name(cache: Cache) -> None:
    """List it with the flavours of the recipe; skip images of an unknown flavour."""
    add(cache, "0" * 16, flavour="linux:wrk")
    add(cache, "1" * 16, flavour="bsd:wrk", root="s")
    assert set(built_names(cache)) - set(built_names(Cache(cache.folder / "none"))) == {"linux:wrk"}
