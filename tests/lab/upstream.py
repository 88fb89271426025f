"""vLLM's own tests for the NIXL connectors, from its source distribution: fetched once, run in either build."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvscope.lab import environment, overlay
from kvscope.lab.errors import LabError
from kvscope.lab.ports import free_ports
from kvscope.lab.process import run_logged

UNIT = "tests/v1/kv_connector/unit"
WANTED = (
    "test_nixl*.py",
    "test_remote_*_lifecycle.py",
    "test_bidirectional_kv_transfer.py",
    "test_multi_connector.py",
    "test_kv_load_failure_recovery.py",
    "test_kv_connector_lifecycle.py",
    "test_error_propagation.py",
    "test_invalid_blocks_correctness.py",
    "test_cache_pollution_prevention.py",
    "test_handshake_pp_aggregation.py",
    "test_transfer_topology_sharded.py",
    "test_tp_mapping.py",
    "test_output_aggregator.py",
    "test_config.py",
)
TOOLS = (
    "pytest==9.2.0",
    "pluggy==1.7.0",
    "iniconfig==2.3.1",
    "pygments==2.21.0",
    "packaging==26.4",
    "pytest-timeout==2.4.0",
)
# What vLLM's own build needs before pip may say which version a source distribution is.
BUILD = ("setuptools<81", "setuptools-rust", "setuptools-scm", "wheel")
SCRIPTS = Path(__file__).parents[1] / "scripts" / "upstream"

# Models that the tests name and of which they need a configuration only: these shapes, under our own folders.
OPT = {
    "architectures": ["OPTForCausalLM"],
    "model_type": "opt",
    "hidden_size": 768,
    "word_embed_proj_dim": 768,
    "ffn_dim": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "max_position_embeddings": 2048,
    "vocab_size": 50272,
    "torch_dtype": "float16",
}
MODELS = ("facebook/opt-125m", "facebook/opt-350m", "Qwen/Qwen3-0.6B")


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    outcomes: dict[str, str]
    """Test id -> passed, failed, skipped, `error in …`."""
    how: str = ""
    """How vLLM was instrumented, and if not, why."""
    faults: dict[str, int] = field(default_factory=dict)
    """Internal errors of the probe -> how often."""

    @property
    def passed(self) -> int:
        """Tests that passed."""
        return sum(outcome == "passed" for outcome in self.outcomes.values())


class Upstream:
    """The fetched tests and what they need. LabError: they cannot be had."""

    def __init__(self, python: Path) -> None:
        self.python = python
        self.folder = environment.home() / f"upstream-{environment.VLLM}"
        with environment.locked(self.folder):
            if not (self.folder / "ready").exists():
                self._fetch()

    def start(self, scratch: Path, run_dir: Path | None = None) -> subprocess.Popen[bytes]:
        """Begin a run, instrumented if there is a directory for its rings; its words go to `scratch`/log."""
        scratch.mkdir()
        command = [str(self.python), "-m", "pytest", "-c", os.devnull, "--rootdir", ".", "--confcutdir", UNIT]
        command += ["-p", "no:cacheprovider", "-p", "kvscope_upstream", "-W", "ignore", "-q", "--tb=short"]
        command += ["--timeout=60", *sorted(self._files())]
        with (scratch / "log").open("wb") as log:
            return subprocess.Popen(
                command, cwd=self.folder, env=self._environment(scratch, run_dir), stdout=log, stderr=log
            )

    def outcome(self, run: subprocess.Popen[bytes], scratch: Path, timeout_s: float) -> Outcome:
        """Wait for a run's end. LabError: it came to no end of its own."""
        try:
            run.wait(timeout_s)
            told: dict[str, Any] = json.loads((scratch / "outcomes.json").read_text())
        except (OSError, subprocess.TimeoutExpired) as error:
            words = (scratch / "log").read_text(errors="replace")[-2000:]
            raise LabError(f"vLLM's tests did not come to an end: {error}\n{words}") from error
        finally:
            run.kill()
            run.wait()
        how = f"{told.get('how', '')} {told.get('reason') or ''}".strip()
        return Outcome(told["outcomes"], how, told.get("faults", {}))

    def _files(self) -> Iterator[str]:
        for pattern in WANTED:
            found = [str(path.relative_to(self.folder)) for path in (self.folder / UNIT).glob(pattern)]
            assert found, f"vLLM {environment.VLLM} has no {pattern}"
            yield from found

    def _environment(self, scratch: Path, run_dir: Path | None) -> dict[str, str]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "KVSCOPE", "VLLM"))}
        path = [str(self.folder / "tools"), str(SCRIPTS)]
        if run_dir is not None:
            path.append(str(overlay.made(environment.home())))
            ours |= {"KVSCOPE_RUN_DIR": str(run_dir), "UPSTREAM_INSTRUMENTED": "1"}
        return ours | {
            "PYTHONPATH": os.pathsep.join(path),
            "UPSTREAM_OUTCOMES": str(scratch / "outcomes.json"),
            "VLLM_MODEL_REDIRECT_PATH": str(self.folder / "models.json"),
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "OMP_NUM_THREADS": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_NIXL_SIDE_CHANNEL_PORT": str(free_ports(1)[0]),  # else runs side by side would meet
        }

    def _fetch(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self._pip({}, "install", "--target", str(self.folder / "build"), *BUILD)
        self._pip({}, "install", "--target", str(self.folder / "tools"), "--no-deps", *TOOLS)
        told = {
            "PYTHONPATH": str(self.folder / "build"),
            "VLLM_TARGET_DEVICE": "empty",
            "VLLM_VERSION_OVERRIDE": environment.VLLM,
        }
        choice = ("--no-deps", "--no-binary", "vllm", "--no-build-isolation", "--dest", str(self.folder))
        self._pip(told, "download", *choice, f"vllm=={environment.VLLM}")
        self._extract(self.folder / f"vllm-{environment.VLLM}.tar.gz")
        shutil.rmtree(self.folder / "build")
        self._models()
        (self.folder / "ready").touch()

    def _pip(self, env: dict[str, str], *words: str) -> None:
        command = [str(self.python), "-m", "pip", "--disable-pip-version-check", "--no-input", *words]
        settings = [f"{name}={value}" for name, value in env.items()]
        run_logged(f"pip {words[0]}", ["env", *settings, *command], self.folder.with_suffix(".log"), lambda _line: None)

    def _extract(self, archive: Path) -> None:
        root = f"vllm-{environment.VLLM}/"
        with tarfile.open(archive) as source:
            for member in source:
                content = source.extractfile(member) if member.name.startswith(f"{root}tests/") else None
                if content is not None:
                    path = self.folder / member.name.removeprefix(root)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content.read())
        archive.unlink()

    def _models(self) -> None:
        known = {name: self.folder / "models" / name for name in MODELS}
        for folder in known.values():
            folder.mkdir(parents=True)
            (folder / "config.json").write_text(json.dumps(OPT))
        (self.folder / "models.json").write_text(json.dumps({name: str(folder) for name, folder in known.items()}))
