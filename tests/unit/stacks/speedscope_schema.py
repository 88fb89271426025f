"""Makes speedscope_schema.json anew from the schema in npm's package: `python tests/unit/stacks/speedscope_schema.py`.

What is kept is names and types alone: no prose. Needs npm.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_suffix(".json")
PACKAGE = "speedscope@1.25.0"
SCHEMA = "node_modules/speedscope/dist/release/file-format-schema.json"
PROSE = {"description", "title", "$comment"}


def bare(value: Any, names: bool = False) -> Any:
    """Without prose. `names`: keys are names of fields, not words of the schema."""
    if isinstance(value, list):
        return [bare(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = value if names else {key: each for key, each in value.items() if key not in PROSE}
    return {key: bare(each, key in ("properties", "definitions") and not names) for key, each in kept.items()}


def main() -> None:
    """Write the file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "package.json").write_text("{}")
        subprocess.run(["npm", "install", "--silent", "--no-save", PACKAGE], cwd=folder, check=True)
        found = json.loads((folder / SCHEMA).read_text())
    FILE.write_text(json.dumps(bare(found), separators=(",", ":"), sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
