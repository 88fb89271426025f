"""`python -m kvscope.alerts rules` or `kubernetes` prints the rules; `tree` writes all that is committed of them."""

from __future__ import annotations

import argparse
from pathlib import Path

from kvscope.alerts import markdown
from kvscope.alerts.rendering import RUNBOOKS, manifest, rules_file

FORMS = {"rules": rules_file, "kubernetes": manifest}
FILES = {"rules": "alerts/kvscope.rules.yml", "kubernetes": "alerts/prometheusrule.yml"}


def main() -> None:
    """Print one of the two files, or write what is made of the table in a checkout of kvscope."""
    parser = argparse.ArgumentParser(prog="python -m kvscope.alerts", description="kvscope's alerts, as YAML.")
    parser.add_argument("form", choices=(*FORMS, "tree"), help="for `rule_files` of Prometheus, or a PrometheusRule; "
                        "tree: write both, and what documents say of them, in the current directory")  # fmt: skip
    parser.add_argument("--runbooks", default=RUNBOOKS, metavar="URL", help="where docs/runbooks is to be found")
    args = parser.parse_args()
    if args.form == "tree":
        for path, text in tree(Path()).items():
            path.write_text(text)
    else:
        print(FORMS[args.form](args.runbooks), end="")


def tree(root: Path) -> dict[Path, str]:
    """Files in a checkout, as they should be."""
    made = {root / path: FORMS[form](RUNBOOKS) for form, path in FILES.items()}
    pages = {root / RUNBOOKS / page: markdown.head(alerts) for page, alerts in markdown.runbooks().items()}
    pages[root / "docs/alerts.md"] = markdown.lists()
    return made | {path: markdown.within(path.read_text(), text) for path, text in pages.items()}


if __name__ == "__main__":
    main()
