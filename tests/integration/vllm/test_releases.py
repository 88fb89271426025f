"""The shipped patches against vLLM as released.

Their trees are what `make engines` leaves: the lab's environment, and the Python files of the releases that do not run
here. KVSCOPE_TEST_VLLM_0_32 and _0_33 name other folders that hold a `vllm`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import CodeType
from typing import NoReturn

import pytest

from kvscope.lab import released as files
from kvscope.lab.environment import PYTHON, VLLM, home
from kvscope.vllm import authoring, check, compilation, disk, importblock, installation, patchfile, patchset, porting
from kvscope.vllm.patchset import PatchSet

PATCHES = patchset.folder()
RELEASES = sorted(patchset.read_table(PATCHES))


def upstream(release: str) -> Path:
    """The folder that holds that release's `vllm` package; without one, skip."""
    variable = "KVSCOPE_TEST_VLLM_" + "_".join(release.split(".")[:2])
    given = os.environ.get(variable)
    if given:
        return authoring.package_folder(Path(given)).parent
    here = lab_python().parent.parent.glob("lib/python3*/site-packages") if release == VLLM else [files.folder(release)]
    found = [folder for folder in here if (folder / "vllm" / "v1").is_dir()]
    return (
        found[0]
        if found
        else missing(
            f"there is no vLLM {release} as released: `make engines` fetches it, or {variable} names its folder"
        )
    )


def missing(what: str) -> NoReturn:
    """Skip, but where every test has to run."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


def lab_python() -> Path:
    """The interpreter of the lab's environment, which may not have been made."""
    return Path(os.environ.get(PYTHON) or home() / f"vllm-{VLLM}" / "bin" / "python")


def released(release: str) -> tuple[PatchSet, Path]:
    return patchset.read_set(PATCHES, release), upstream(release)


def test_both_supported_releases_are_there() -> None:
    assert {"0.32.0", "0.33.0"} <= set(RELEASES)


def test_the_support_table_is_what_the_patches_say() -> None:
    assert patchset.read_table(PATCHES) == patchset.derive_table(patchset.read_all(PATCHES))


def test_every_patch_has_the_name_that_its_headers_imply() -> None:
    names = {file.relative_to(PATCHES).as_posix() for file in PATCHES.rglob("*.patch")}
    assert names == {patch.name for patch in patchset.read_all(PATCHES)}


def test_no_upstream_text_is_kept() -> None:
    for patch in patchset.read_all(PATCHES):
        added = [line for hunk in patch.hunks for line in hunk.added]
        own = [line for line in added if line.strip().startswith(f"{importblock.NAME}.") or line in importblock.LINES]
        assert added == own, patch.path
        assert patchfile.render(patch) == (PATCHES / patch.name).read_text()


@pytest.mark.parametrize("release", RELEASES)
def test_the_added_lines_cannot_raise(release: str) -> None:
    patches, base = released(release)
    signatures = check.tracepoints()
    assert [v for p in patches.patches for v in check.violations(p, (base / p.path).read_bytes(), signatures)] == []


@pytest.mark.parametrize("release", RELEASES)
def test_the_patched_files_compile_with_upstreams_line_numbers(release: str) -> None:
    patches, base = released(release)
    for patch in patches.patches:
        stock = (base / patch.path).read_bytes()
        code = compilation.compile_patched(patchfile.apply(patch, stock), patch.hunks, patch.path)
        assert first_lines(code) == first_lines(compile(stock, patch.path, "exec"))


def first_lines(code: CodeType) -> dict[str, list[int]]:
    codes = compilation.function_codes(code)
    return {name: [one.co_firstlineno for one in codes[name]] for name in codes if name != "<lambda>"}


@pytest.mark.parametrize("release", RELEASES)
def test_on_disk_it_is_reversible_byte_for_byte(release: str, tmp_path: Path) -> None:
    patches, base = released(release)
    for patch in patches.patches:
        (tmp_path / patch.path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(base / patch.path, tmp_path / patch.path)
    assert len(disk.apply(PATCHES, tmp_path).paths) == len(patches.patches)
    found = installation.survey(PATCHES, tmp_path)
    assert (found.patches.release, disk.describe(found)) == (release, "patched")
    disk.revert(PATCHES, tmp_path)
    for patch in patches.patches:
        assert (tmp_path / patch.path).read_bytes() == (base / patch.path).read_bytes()
    assert not list(tmp_path.rglob(".kvscope*"))


def test_porting_gives_the_next_releases_patches_but_for_what_it_reports() -> None:
    origin, base = patchset.read_set(PATCHES, "0.32.0"), upstream("0.33.0")
    ports = {one.patch.path: one for one in porting.port(origin, base, "0.33.0")}
    made = {patch.path: patch for patch in patchset.read_set(PATCHES, "0.33.0").patches}
    assert ports.keys() == made.keys()
    for path, one in ports.items():
        if one.complete:
            assert {h.line: h.added for h in one.patch.hunks}.items() <= {
                h.line: h.added for h in made[path].hunks
            }.items()


REAL = """
import sys, vllm, vllm.v1.engine.core as core
from kvscope.vllm import plugin, status
plugin.load()
import vllm.v1.core.sched.scheduler as scheduler
from vllm.distributed.kv_transfer.kv_connector.v1.nixl import push_worker, pull_worker
for function in (core.EngineCore.preprocess_add_request, scheduler.Scheduler.schedule,
                 push_worker.NixlPushConnectorWorker._push_writer_loop,
                 pull_worker.NixlPullConnectorWorker._read_blocks):
    assert "_kvs" in function.__code__.co_names, function
print(status.how, status.release, status.reason)
"""


@pytest.mark.slow
def test_the_plugin_takes_effect_in_a_real_vllm() -> None:
    python = lab_python()
    if not python.exists():
        missing(f"{python} does not exist: `make engines` makes the lab's environment")
    root = str(Path(__file__).parents[3])
    environment = {**os.environ, "PYTHONPATH": root, "CUDA_VISIBLE_DEVICES": ""}
    ended = subprocess.run([python, "-c", REAL], env=environment, capture_output=True, text=True, timeout=110)
    assert ended.stdout.splitlines()[-1:] == [f"import {VLLM} None"], ended.stderr
