"""The recipe, and the digests by which an image is known."""

from dataclasses import replace
from pathlib import Path

import pytest

from iolab.errors import InputError
from iolab.image.recipe import RECIPE, Recipe, name_layers, read_recipe


@pytest.fixture
def recipe() -> Recipe:
    """The recipe that came with the program."""
    return read_recipe()


def test_the_package_holds_the_recipe_of_the_tree() -> None:
    """One file, seen from both places."""
    assert RECIPE.read_bytes() == (Path(__file__).parents[3] / "guest/recipe.toml").read_bytes()


def test_every_flavour_can_measure(recipe: Recipe) -> None:
    """The programs that trials need are in each."""
    for flavour in recipe.flavours:
        assert {"iperf3", "fio", "iproute2", "ethtool", "kmod", "mount", "open-iscsi", "tgt"} <= set(
            flavour.packages
        )
    assert recipe.flavour("xen").xen is not None
    assert "qemu-system-x86" in recipe.flavour("nested").packages


def test_an_unknown_flavour_is_told_with_the_known(recipe: Recipe) -> None:
    """Exit code 2 and the names."""
    with pytest.raises(InputError, match="'bsd'; allowed: linux, nested, xen"):
        recipe.flavour("bsd")


def test_a_new_agent_makes_a_new_image_of_the_same_layers(recipe: Recipe) -> None:
    """So that it costs seconds and no network."""
    one, two = (name_layers(recipe, recipe.flavour("linux"), "bookworm", agent) for agent in "ab")
    assert (one.kernel, one.root) == (two.kernel, two.root)
    assert one.image != two.image


def test_flavours_share_the_kernel(recipe: Recipe) -> None:
    """Only the root differs."""
    linux, xen = (name_layers(recipe, recipe.flavour(name), "bookworm", "a") for name in ("linux", "xen"))
    assert linux.kernel == xen.kernel
    assert linux.root != xen.root


@pytest.mark.parametrize(
    "change", [{"format": 99}, {"kernel_package": "linux-image-rt-amd64"}, {"early_modules": ("virtio_pci",)}]
)
def test_a_change_of_the_recipe_makes_another_image(recipe: Recipe, change: dict[str, object]) -> None:
    """As does another release of Debian."""
    flavour = recipe.flavour("linux")
    before = name_layers(recipe, flavour, "bookworm", "a")
    changed = replace(recipe, **change)  # type: ignore[arg-type]
    assert name_layers(changed, flavour, "bookworm", "a").image != before.image
    assert name_layers(recipe, flavour, "trixie", "a").image != before.image


def test_a_feature_that_images_are_asked_for_makes_a_new_kernel_layer(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image that was built before does not know whether it has it."""
    linux = recipe.flavour("linux")
    before = name_layers(recipe, linux, "bookworm", "0")
    monkeypatch.setattr("iolab.image.recipe.FEATURE_MODULES", {"nic:other": "other"})
    after = name_layers(recipe, linux, "bookworm", "0")
    assert after.kernel != before.kernel
    assert after.root == before.root
