"""Where vLLM is installed, found without importing it."""

import importlib.util
from pathlib import Path

from kvscope.model.errors import InputError
from kvscope.vllm import interpreter

_QUESTION = (
    "import importlib.util as u, json; s = u.find_spec('vllm');"
    "print(json.dumps(list(s.submodule_search_locations or ()) if s else []))"
)


def base_folder(given: Path | None, python: str | None) -> Path:
    """The folder that holds the `vllm` package: from a path to either, an interpreter, or this interpreter."""
    if given is not None:
        return _containing(given)
    locations = _own() if python is None else _ask(python)
    if not locations:
        who = "this Python" if python is None else python
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
    return [str(location) for location in interpreter.ask(python, _QUESTION, list)]
