"""`kvscope patch`: the instrumented build, on disk and for those who maintain it."""

import argparse
from collections.abc import Callable
from pathlib import Path

from kvscope.model.counting import count

HELP = "apply, revert, check, make or port the lines that instrument vLLM"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs of `kvscope patch`."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, call, text in (
        ("apply", _apply, "patch an installed vLLM on disk, whole or not at all"),
        ("status", _status, "say what state an installed vLLM is in"),
        ("revert", _revert, "take the added lines off again, byte for byte"),
        ("check", _check, "prove that the added lines cannot raise in an installed vLLM"),
    ):
        _installed(_verb(verbs, name, call, text))
    make = _verb(verbs, "make", _make, "write the patches of a release from an edited copy")
    make.add_argument("--upstream", type=Path, required=True, metavar="DIR", help="vLLM as released")
    make.add_argument(
        "--edited", type=Path, required=True, metavar="DIR", help="a copy, maybe partial, with lines added"
    )
    make.add_argument("--release", required=True, help="the release that DIR is, e.g. 0.32.0")
    port = _verb(verbs, "port", _port, "carry the patches of one release to another")
    port.add_argument("--to", type=Path, required=True, metavar="DIR", help="the new vLLM as released")
    port.add_argument("--release", required=True, help="the release that DIR is")
    port.add_argument("--edited", type=Path, metavar="DIR", help="where to write edited copies, to be finished by hand")
    port.add_argument("--from", dest="origin", metavar="RELEASE", help="default: the newest supported")


def _verb(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    call: Callable[[argparse.Namespace, Path], int],
    text: str,
) -> argparse.ArgumentParser:
    verb: argparse.ArgumentParser = verbs.add_parser(name, help=text, description=text)
    verb.set_defaults(call=call)
    verb.add_argument("--patches", type=Path, metavar="DIR", help="the patch folder (default: kvscope's own)")
    return verb


def _installed(verb: argparse.ArgumentParser) -> None:
    where = verb.add_mutually_exclusive_group()
    where.add_argument("--vllm", type=Path, metavar="DIR", help="the vllm package, or the site-packages that hold it")
    where.add_argument("--python", metavar="EXE", help="the interpreter whose vLLM is meant (default: this one)")


def run(args: argparse.Namespace) -> int:
    """Exit code: 0 when all is well, 1 when something was found wanting."""
    from kvscope.vllm import patchset

    code: int = args.call(args, args.patches or patchset.folder())
    return code


def _apply(args: argparse.Namespace, root: Path) -> int:
    from kvscope.vllm import discovery, disk

    done = disk.apply(root, discovery.base_folder(args.vllm, args.python))
    patched = f"{count(len(done.paths), 'file')} patched, {len(done.found.files)} in all"
    print(f"vLLM {done.found.patches.release} in {done.found.base}: {patched}")
    return 0


def _revert(args: argparse.Namespace, root: Path) -> int:
    from kvscope.vllm import discovery, disk

    done = disk.revert(root, discovery.base_folder(args.vllm, args.python))
    print(f"vLLM {done.found.patches.release} in {done.found.base}: {count(len(done.paths), 'file')} reverted")
    return 0


def _status(args: argparse.Namespace, root: Path) -> int:
    from kvscope.vllm import discovery, disk, installation

    found = installation.survey(root, discovery.base_folder(args.vllm, args.python))
    print(f"vLLM {found.version or '(no version)'} in {found.base}: {disk.describe(found)}")
    print(f"compared with release {found.patches.release}, patch set {found.patches.digest}")
    for file in found.files:
        note = file.difference() if file.state in (installation.CHANGED, installation.MISSING) else file.patch.path
        print(f"  {file.state:8} {note}")
    partly = found.of(installation.STOCK) and found.of(installation.PATCHED)
    return 1 if found.refusal() or partly else 0


def _check(args: argparse.Namespace, root: Path) -> int:
    from kvscope.model.errors import InputError
    from kvscope.vllm import check, discovery, installation

    found = installation.survey(root, discovery.base_folder(args.vllm, args.python))
    if refusal := found.refusal():
        raise InputError(refusal)
    signatures = check.tracepoints()
    findings = [text for file in found.files for text in check.violations(file.patch, file.stock(), signatures)]
    print(*findings, sep="\n", end="\n" if findings else "")
    lines = sum(len(hunk.added) for patch in found.patches.patches for hunk in patch.hunks)
    where = f"{count(lines, 'added line')} in {count(len(found.files), 'file')}"
    print(f"{found.patches.release}: {where}, {count(len(findings), 'finding')}")
    return 1 if findings else 0


def _make(args: argparse.Namespace, root: Path) -> int:
    from kvscope.vllm import authoring, check, patchset

    made = authoring.make(args.upstream, args.edited, args.release)
    package = authoring.package_folder(args.upstream)
    for patch in made:
        check.require(check.violations(patch, (package / patch.path.removeprefix("vllm/")).read_bytes()))
    patchset.store(root, args.release, made)
    for patch in made:
        lines = sum(len(hunk.added) for hunk in patch.hunks)
        print(f"{patch.path}: {count(lines, 'line')} in {root / patch.name}")
    return 0


def _port(args: argparse.Namespace, root: Path) -> int:
    from kvscope.vllm import patchset, porting

    origin = args.origin or patchset.newest(patchset.read_table(root))
    ports = porting.port(patchset.read_set(root, origin), args.to, args.release)
    print(*porting.report(ports), sep="\n")
    if args.edited:
        porting.write_edited(ports, args.to, args.edited)
    if not all(one.complete for one in ports):
        print(f"{origin} to {args.release}: not complete, so not stored; finish the edited copies, then `patch make`")
        return 1
    patchset.store(root, args.release, [one.patch for one in ports])
    print(f"{origin} to {args.release}: stored; look at each changed function")
    return 0
