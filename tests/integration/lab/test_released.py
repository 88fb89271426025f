"""A release's Python files, out of a wheel of the test's own."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from kvscope.lab import released
from kvscope.lab.environment import HOME
from kvscope.lab.errors import LabError
from kvscope.lab.progress import Silent
from kvscope.model.errors import InputError

RELEASE = "9.9.9"
INFO = f"vllm-{RELEASE}.dist-info"
FILES = {"vllm/__init__.py": "", "vllm/v1/core.py": "STEP = 1\n", "vllm/_C.abi3.so": "machine code", "other/a.py": ""}


@pytest.fixture
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which pip looks for wheels, and nowhere else."""
    folder = tmp_path / "links"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv(HOME, str(tmp_path / "home"))
    return folder


def write_wheel(folder: Path, files: dict[str, str]) -> None:
    metadata = {"METADATA": f"Metadata-Version: 2.1\nName: vllm\nVersion: {RELEASE}\n", "WHEEL": "Wheel-Version: 1.0\n"}
    with zipfile.ZipFile(folder / f"vllm-{RELEASE}-cp38-abi3-manylinux_2_28_x86_64.whl", "w") as wheel:
        for name, text in files.items() | {(f"{INFO}/{name}", text) for name, text in metadata.items()}:
            wheel.writestr(name, text)


@pytest.mark.parametrize("name", ["", "../../elsewhere", "latest", "0.32.0; true"])
def test_what_is_no_release_is_not_looked_for(links: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="is no release of vLLM"):
        released.fetched(name, Silent())
    assert sorted(tmp_path.iterdir()) == [links]


@pytest.mark.slow
def test_its_python_files_are_kept_and_nothing_else(links: Path) -> None:
    write_wheel(links, FILES)
    folder = released.fetched(RELEASE, Silent())
    kept = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert kept == {name: text for name, text in FILES.items() if name.startswith("vllm/") and name.endswith(".py")}
    assert {path.suffix for path in folder.parent.iterdir()} == {".9-files", ".log", ".lock"}
    (links / f"vllm-{RELEASE}-cp38-abi3-manylinux_2_28_x86_64.whl").unlink()
    assert released.fetched(RELEASE, Silent()) == folder, "once is enough"


@pytest.mark.slow
def test_a_release_that_cannot_be_had_leaves_no_half(links: Path) -> None:
    with pytest.raises(LabError, match=rf"pip download vllm=={RELEASE} failed"):
        released.fetched(RELEASE, Silent())
    assert not released.folder(RELEASE).exists()


def test_a_wheel_without_python_files_is_refused(links: Path, tmp_path: Path) -> None:
    write_wheel(links, {"vllm/_C.abi3.so": ""})
    (wheel,) = links.iterdir()
    with pytest.raises(LabError, match="holds no Python file"):
        released.unpack(wheel, tmp_path / "files")


def test_what_is_fetched_unasked_is_what_cannot_run_here() -> None:
    assert "0.33.0" in released.others()
    assert "0.32.0" not in released.others()
