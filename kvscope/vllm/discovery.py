"""Where vLLM is installed, found without importing it."""

import importlib.util
import json
import subprocess
from pathlib import Path

from kvscope.model.errors import InputError

_QUESTION = (
    "import importlib.util as u, json; s = u.find_spec('vllm');"
    "print(json.dumps(list(s.submodule_search_locations or ()) if s else []))"
)


def base_folder(given: Path | None, python: str | None) -> Path:
    """The folder that holds the `vllm` package: from a path to either, an interpreter, or this interpreter."""
    if given is not None:
        return _containing(given)
    locations = _ask(python) if python else _own()
    if not locations:
        who = python or "this Python"
        raise InputError(f"{who} has no vLLM; give --vllm DIR (its site-packages or package folder) or --python")
    return Path(locations[0]).parent


def _containing(given: Path) -> Path:
    if (given / "vllm").is_dir():
        return given.absolute()
    if given.name == "vllm" and given.is_dir():
        return given.absolute().parent
    raise InputError(f"{given} is neither a vllm package nor a folder that holds one")


def _own() -> list[str]:
    spec = importlib.util.find_spec("vllm")
    return list(spec.submodule_search_locations or ()) if spec else []


def _ask(python: str) -> list[str]:
    try:
        answer = subprocess.run([python, "-c", _QUESTION], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError(f"cannot ask {python} where its vLLM is: {error}") from None
    locations: list[str] = json.loads(answer.stdout)
    return locations
