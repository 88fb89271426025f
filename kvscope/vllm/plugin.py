"""What vLLM calls in each of its processes, perhaps more than once. Nothing ever leaves it as an exception."""

import gc
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from kvscope.vllm import status

SWITCH = "KVSCOPE"
BY_FUNCTION = "KVSCOPE_BY_FUNCTION"
SAID = "KVSCOPE_SAID"
"""Set once the reason was told, so that an engine's further processes do not repeat it."""
CHECKED = "KVSCOPE_CHECKED"
"""Which patches passed the check, so that an engine's further processes need not repeat it."""


def load() -> None:
    """Instrument this process, or say once why not."""
    try:
        if os.environ.get(SWITCH) == "off":
            status.how = "off"
        elif status.how in ("not loaded", "off"):
            _without_collector(_instrument)
    except Exception as error:  # noqa: BLE001 - an exception here would stop vLLM's start
        _refuse(str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}")


def _without_collector(work: Callable[[], None]) -> None:
    """Syntax trees are many small objects: beside a heap with torch in it, collections would double the time."""
    on = gc.isenabled()
    gc.disable()
    try:
        work()
    finally:
        if on:
            gc.enable()


def _instrument() -> None:
    # Imported here, so that a damaged installation of kvscope is a reason and not a failed start.
    from kvscope.vllm import importer, installation, patchset, relocation

    package = sys.modules.get("vllm")
    if package is None:
        raise ValueError("vllm is not imported in this process")
    root = patchset.folder()
    base = Path(next(iter(package.__path__))).parent
    found = installation.survey(root, base, str(getattr(package, "__version__", "")))
    refusal = found.refusal()
    patched = found.of(installation.PATCHED)
    if refusal is None:
        sources = [(file.patch, file.path, file.data or b"") for file in found.of(installation.STOCK)]
        how = "import" if not patched else "import and disk" if sources else "disk"
    elif os.environ.get(BY_FUNCTION) == "1":
        sources, status.missing = relocation.by_function(found, patchset.read_all(root))
        how = "by function"
    else:
        raise ValueError(refusal)
    mark = importer.fingerprint(sources)
    prepared = importer.prepare(sources, checked=os.environ.get(CHECKED) == mark)
    os.environ[CHECKED] = mark
    prepared.install(import_module("kvscope.vllm.tracepoints"))
    status.how, status.release, status.patch_hash = how, found.patches.release, found.patches.digest
    if status.missing:
        print(f"kvscope: no moments from {', '.join(status.missing)}", file=sys.stderr, flush=True)


def _refuse(reason: str) -> None:
    status.how, status.reason, status.missing = "failed", " ".join(reason.split()), ()
    try:
        if SAID not in os.environ:
            print(f"kvscope: vLLM runs uninstrumented: {status.reason}", file=sys.stderr, flush=True)
            os.environ[SAID] = "1"
        from kvscope.probe import recorder

        recorder.note_uninstrumented(status.reason)
    except Exception:  # noqa: BLE001, S110 - there is nobody left to tell
        pass
