"""The command line finds its verbs, loads only the one named, and says what is wrong in one sentence."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvscope.cli import main, verbs

ROOT = Path(__file__).parents[3]
GREET = """
HELP = "say a word"

def add_arguments(parser):
    parser.add_argument("word")
    parser.add_argument("--times", type=int, default=1)

def run(args):
    print(args.word * args.times)
    return args.times
"""


@pytest.fixture
def greet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installation with two verbs, of which one cannot even be imported."""
    (tmp_path / "verb_greet.py").write_text(GREET)
    (tmp_path / "verb_broken.py").write_text("import no_such_thing")
    monkeypatch.syspath_prepend(tmp_path)
    known = [verbs.Verb(name, f"verb_{name}") for name in ("greet", "broken")]
    monkeypatch.setattr(verbs, "VERBS", tuple(known))
    yield
    for verb in known:
        sys.modules.pop(verb.module, None)


@pytest.mark.usefixtures("greet")
def test_only_the_named_verb_is_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["greet", "ha", "--times", "3"]) == 3
    assert capsys.readouterr().out == "hahaha\n"
    assert "verb_broken" not in sys.modules


@pytest.mark.usefixtures("greet")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gret"], "kvscope: there is no verb 'gret'; did you mean `kvscope greet`?\n"),
        (["zzz"], "kvscope: there is no verb 'zzz'; `kvscope --help` lists the verbs.\n"),
        (["--colour"], "kvscope: there is no verb '--colour'; `kvscope --help` lists the verbs.\n"),
        (["greet"], "kvscope: the following arguments are required: word (see `kvscope greet --help`)\n"),
        (
            ["greet", "ha", "--times", "x"],
            "kvscope: argument --times: invalid int value: 'x' (see `kvscope greet --help`)\n",
        ),
    ],
)
def test_a_wrong_command_line_is_one_sentence(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    printed = capsys.readouterr()
    assert (printed.err, printed.out) == (said, "")


@pytest.mark.usefixtures("greet")
def test_help_of_a_verb_comes_from_its_module(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["greet", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "kvscope greet" in shown
    assert "say a word" in shown
    assert "--times" in shown


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_help_fits_one_screen_and_lists_every_verb(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 100
    listed = [line.split()[0] for line in lines if line.startswith("  ")]
    assert listed == [verb.name for verb in verbs.VERBS]


def test_version_is_the_one_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    name, number = capsys.readouterr().out.split()
    assert name == "kvscope"
    assert number.count(".") == 2


@pytest.mark.parametrize(
    ("words", "package", "extra"),
    [
        ("report", "numpy", "report"),
        ("top --once", "numpy", "top"),
        ("serve --slo ttft=1s", "numpy", "serve"),
        ("serve --slo ttft=1s", "prometheus_client", "serve"),
        ("dashboards render there", "numpy", "dashboards"),
        ("dashboards render there", "grafana_foundation_sdk", "dashboards"),
        ("annotate incident late --url http://localhost --token x", "numpy", "dashboards"),
    ],
)
def test_one_extra_brings_all_that_a_verb_needs(
    words: str, package: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told of one package after the other, whoever installs would have to come back."""
    monkeypatch.setenv("KVSCOPE_RUN_DIR", str(tmp_path))
    without = f"import sys; sys.modules[{package!r}] = None; from kvscope.cli import main"
    block = f"{without}; sys.exit(main({words.split()!r}))"
    ran = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == f"kvscope: {package} is not installed here; run: pip install 'kvscope[{extra}]'\n"
    assert extra in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
