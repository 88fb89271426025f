"""Makes grafana_schema.json anew from Grafana's published types: `python tests/contract/grafana_schema.py` (needs npm).

npm's @grafana/schema holds types in TypeScript, of which ts-json-schema-generator makes JSON schemas. What is kept is
names and types alone: no prose.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_suffix(".json")
PACKAGES = ("@grafana/schema@12.4.11", "ts-json-schema-generator@2.4.0")
RAW = "node_modules/@grafana/schema/dist/types/raw"
TYPES = {
    "Dashboard": ("dashboard", "Dashboard"),
    "Panel": ("dashboard", "Panel"),
    "RowPanel": ("dashboard", "RowPanel"),
    **{f"{panel} options": (f"composable/{panel}/panelcfg", "Options")
       for panel in ("timeseries", "stat", "table", "heatmap")},
    **{f"{panel} fields": (f"composable/{panel}/panelcfg", "FieldConfig")
       for panel in ("timeseries", "table", "heatmap")},
}  # fmt: skip
PROSE = {"description", "$comment", "$schema"}


def bare(value: Any, names: bool = False) -> Any:
    """Without prose. `names`: keys are names of fields, not words of the schema."""
    if isinstance(value, list):
        return [bare(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = value if names else {key: each for key, each in value.items() if key not in PROSE}
    return {key: bare(each, key in ("properties", "definitions") and not names) for key, each in kept.items()}


def made(folder: Path, of: tuple[str, str]) -> Any:
    """The schema of one type."""
    place, name = of
    command = [
        "node_modules/.bin/ts-json-schema-generator",
        "--path",
        f"{RAW}/{place}/x/types.gen.d.ts",
        "--type",
        name,
    ]
    ran = subprocess.run([*command, "--no-type-check"], cwd=folder, check=True, capture_output=True, text=True)
    return bare(json.loads(ran.stdout))


def main() -> None:
    """Write the file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "package.json").write_text("{}")
        subprocess.run(["npm", "install", "--silent", "--no-save", *PACKAGES], cwd=folder, check=True)
        found = {kind: made(folder, of) for kind, of in TYPES.items()}
    FILE.write_text(json.dumps({"made from": PACKAGES, "types": found}, separators=(",", ":"), sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
