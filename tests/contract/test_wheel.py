"""What a wheel holds: the patches travel with the code that applies them, and nothing else comes along."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from .tree import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
    return ZipFile(next(folder.glob("*.whl")))


def test_the_patches_travel_inside_the_package(wheel: ZipFile) -> None:
    inside = {name.removeprefix("kvscope/patches/") for name in wheel.namelist() if name.startswith("kvscope/patches/")}
    patches = ROOT / "patches"
    assert inside == {str(path.relative_to(patches)) for path in patches.rglob("*") if path.is_file()}
    assert "support.toml" in inside


def test_nothing_but_the_package_is_installed(wheel: ZipFile) -> None:
    assert {Path(name).parts[0].partition("-")[0] for name in wheel.namelist()} == {"kvscope"}


def test_installing_it_brings_no_other_package(wheel: ZipFile) -> None:
    metadata = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    needed = [line for line in wheel.read(metadata).decode().splitlines() if line.startswith("Requires-Dist:")]
    assert needed
    assert all("extra ==" in line for line in needed)
