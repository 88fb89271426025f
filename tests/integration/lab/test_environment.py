"""The lab's own environment, made from a package of the test's own; and the overlay for the engines."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kvscope.lab import environment, overlay, pytorch
from kvscope.lab.errors import LabError
from kvscope.lab.pip import Pip
from kvscope.lab.progress import Silent
from kvscope.model.errors import InputError


def written(folder: Path, name: str, version: str = "1.0", requires: tuple[str, ...] = (), text: str = "") -> Path:
    """A wheel that needs no build, and no index where it is told of as a file."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", text)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return path


@pytest.fixture
def wheel(tmp_path: Path) -> str:
    return str(written(tmp_path, "tiny"))


@pytest.fixture
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All that pip finds: an engine that requires a build for the CPU, something else, and something unwanted."""
    folder = tmp_path / "links"
    folder.mkdir()
    written(folder, "engine", requires=("big==1.0+cpu", "other", "useless; python_version > '3'"))
    written(folder, "other")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def installed(folder: Path) -> dict[str, str]:
    """Name and version of what the environment holds."""
    infos = folder.glob("lib/python*/site-packages/*.dist-info")
    return dict(info.name.removesuffix(".dist-info").split("-", 1) for info in infos)


@pytest.mark.slow
def test_the_build_for_the_cpu_is_taken_where_pip_has_it(tmp_path: Path, links: Path) -> None:
    written(links, "big", "1.0+cpu")
    written(links, "big")
    written(links, "useless")
    folder = tmp_path / "venv"
    environment.make(folder, ("engine==1.0",), ("useless",), 0, Silent(), "big==1.0")
    found = installed(folder)
    assert (found["big"], found["engine"], found["other"]) == ("1.0+cpu", "1.0", "1.0")
    assert not found.keys() & {"useless", "uv"}


@pytest.mark.slow
def test_the_build_for_the_cpu_is_taken_where_uv_has_it(tmp_path: Path, links: Path) -> None:
    cpu = written(tmp_path, "big", "1.0+cpu")
    standing_in = f"import subprocess, sys; subprocess.run([sys.executable, '-m', 'pip', 'install', {str(cpu)!r}])"
    written(links, "uv", text=standing_in)  # uv's own index is not to be had in a test
    written(links, "big")
    written(links, "useless")
    folder = tmp_path / "venv"
    environment.make(folder, ("engine==1.0",), (), 0, Silent(), "big==1.0")
    assert installed(folder)["big"] == "1.0+cpu"


@pytest.mark.slow
def test_another_build_takes_its_place_where_it_is_nowhere(tmp_path: Path, links: Path) -> None:
    written(links, "big")
    folder = tmp_path / "venv"
    environment.make(folder, ("engine==1.0", "other==1.0"), ("useless",), 0, Silent(), "big==1.0")
    found = installed(folder)
    assert (found["big"], found["engine"], found["other"]) == ("1.0", "1.0", "1.0")
    assert "useless" not in found
    assert (folder / "ready.json").exists()


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Pip:
    """Of an environment in which nothing will be installed."""
    folder = tmp_path_factory.mktemp("empty") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return Pip(folder, folder.with_name("venv.log"), Silent())


@pytest.mark.slow
def test_no_build_at_all_is_said_with_what_to_do(links: Path, empty: Pip) -> None:
    assert list(links.glob("big-*")) == []
    assert not pytorch.found(empty, "big==1.0")
    told = r"neither big==1\.0\+cpu nor PyPI's big==1\.0 .* PIP_EXTRA_INDEX_URL(.|\n)*No matching(.|\n)*venv\.log"
    with pytest.raises(LabError, match=told):
        pytorch.replaced(empty, "big==1.0", ("engine==1.0",), ())


@pytest.mark.slow
def test_a_build_that_is_there_and_broken_is_not_replaced(links: Path, empty: Pip) -> None:
    (links / "big-1.0+cpu-py3-none-any.whl").write_text("cut short")
    with pytest.raises(LabError, match=r"^pip install failed(.|\n)*big-1\.0\+cpu"):
        pytorch.found(empty, "big==1.0")


def test_a_requirement_is_relaxed_in_its_build_only() -> None:
    given = ["torch==2.13.0+cpu; platform_machine == 'x86_64'", "torchvision>=0.1", "numpy", "fastapi[standard]<1"]
    kept = ["torch==2.13.0; platform_machine == 'x86_64'", "numpy", "fastapi[standard]<1"]
    assert pytorch.relaxed(given, ("torchvision", "fastapi-cli")) == kept


@pytest.mark.slow
def test_an_environment_is_made_whole_and_one_that_was_cut_is_made_anew(tmp_path: Path, wheel: str) -> None:
    folder = tmp_path / "venv"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").write_text("what a cut set-up left")
    environment.make(folder, (wheel,), ("surely-not-there",), 0, Silent())
    assert (folder / "ready.json").exists()
    subprocess.run([folder / "bin" / "python", "-c", "import tiny"], check=True)


@pytest.mark.slow
def test_a_package_that_cannot_be_had_is_told_with_pip_s_last_words(tmp_path: Path) -> None:
    folder = tmp_path / "venv"
    with pytest.raises(LabError, match=r"pip install failed(.|\n)*nowhere\.whl(.|\n)*venv\.log"):
        environment.make(folder, (str(tmp_path / "nowhere.whl"),), (), 0, Silent())
    assert not (folder / "ready.json").exists()


def test_too_small_a_disk_is_said_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"GB free .* KVSCOPE_LAB_HOME"):
        environment.make(tmp_path / "venv", (), (), 1 << 60, Silent())
    assert not (tmp_path / "venv").exists()


def test_a_missing_system_library_is_said_with_what_brings_it() -> None:
    environment.check_library("libc.so.6")
    with pytest.raises(LabError, match=r"vLLM needs a library: libnowhere\.so\.1: .* apt-get install libnuma1"):
        environment.check_library("libnowhere.so.1")


def test_an_interpreter_without_vllm_says_what_it_lacks() -> None:
    with pytest.raises(InputError, match=f"{sys.executable} has no vllm and no nixl"):
        environment.examined(Path(sys.executable))


@pytest.mark.parametrize("text", [None, "#!/bin/sh\nexit 1\n"])
def test_what_is_no_interpreter_is_refused(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "python"
    if text is not None:
        path.write_text(text)
        path.chmod(0o755)
    with pytest.raises(InputError, match="not a working Python"):
        environment.examined(path)


def test_the_overlay_declares_the_plugin_to_a_stock_interpreter_and_brings_the_patches(tmp_path: Path) -> None:
    folder = overlay.made(tmp_path)
    ask = (
        "import importlib.metadata as m; [e] = m.entry_points(group='vllm.general_plugins', name='kvscope');"
        "import kvscope.vllm.patchset as p; e.load(); print(p.folder(), p.folder().is_dir())"
    )
    bare = [sys.executable, "-S", "-P", "-c", ask]  # without site-packages and the current folder, which have kvscope
    told = subprocess.run(bare, env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=True).stdout
    place, there = told.split()
    assert Path(place).is_relative_to(folder)
    assert there == "True"


def test_the_overlay_is_kept_until_a_file_changes(tmp_path: Path) -> None:
    assert overlay.made(tmp_path) == overlay.made(tmp_path)
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.py").write_text("1")
    before = overlay.fingerprint([source])
    (source / "a.py").write_text("12")
    assert overlay.fingerprint([source]) != before
