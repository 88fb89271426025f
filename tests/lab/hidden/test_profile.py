"""What `kvscope profile` says of a real push pair under load: who did what, and who held the GIL."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvscope.core.critical_path import split
from kvscope.lab.front import RouterProcess
from kvscope.lab.load import LoadOptions
from kvscope.sources import open_sources
from kvscope.stacks.doing import GIL_WAIT, WAITING
from kvscope.stacks.profile import Profile, Share, profile
from kvscope.stacks.reading import read_stacks
from kvscope.stacks.session import STACKS, take
from kvscope.stacks.targets import recording_in
from tests.lab.rig import Rig

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

LOAD = LoadOptions(requests=60, rate=4.0, input_tokens=((300, 1.0), (900, 1.0)), output_tokens=6)
RATE_HZ = 100
FEW = 4
"""So few samples say nothing of shares."""


@pytest.fixture(scope="module")
def router(rig: Rig) -> RouterProcess:
    return rig.front("p0", "d0", way="early")


@contextmanager
def spinning(rig: Rig) -> Iterator[None]:
    """While p0's spinner spins."""
    (rig.folder / "spin").touch()
    try:
        yield
    finally:
        (rig.folder / "spin").unlink()


def profiled(rig: Rig, router: RouterProcess, folder: Path) -> Profile:
    """Send the load, and profile both engines meanwhile."""
    stop, begun = threading.Event(), threading.Event()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            targets = recording_in(rig.run_dir, ("p0", "d0"))
            taken = take(stop, targets, rig.run_dir, folder, RATE_HZ, 600.0, lambda processes: begun.set())
            assert taken.faults == (), taken.faults
        except BaseException as error:  # noqa: BLE001 - told where the test waits
            failed.append(error)
            begun.set()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    try:
        records = rig.load(LOAD, router.url)
    finally:
        stop.set()
        thread.join()
    assert not failed, failed
    assert all(record.ok for record in records)
    stacks = read_stacks(folder / STACKS)
    return profile(stacks, split(open_sources([folder]).events))


@pytest.fixture(scope="module")
def found(rig: Rig, router: RouterProcess, tmp_path_factory: pytest.TempPathFactory) -> Profile:
    """A load without a fault."""
    return profiled(rig, router, tmp_path_factory.mktemp("healthy") / "profile")


def of(shares: tuple[Share, ...], engine: str, role: str) -> Share:
    (one,) = [share for share in shares if (share.engine, share.role) == (engine, role)]
    return one


def while_open(found: Profile, stage: str, engine: str, role: str) -> Share:
    (one,) = [each for each in found.stages if (each.stage, each.engine) == (stage, engine)]
    return of(one.shares, engine, role)


def part(share: Share, *names: str) -> float:
    return sum(share.doing.get(name, 0) for name in names) / share.samples


def test_every_process_of_every_engine_is_sampled(rig: Rig, found: Profile) -> None:
    recording = {(target.engine, target.pid) for target in recording_in(rig.run_dir, ("p0", "d0"))}
    sampled = {(thread.engine, thread.pid) for thread in found.stacks.threads}
    assert sampled == recording
    print(
        f"{len(found.stacks.samples):,} samples of {len(recording)} processes,"
        f" times within {found.error_ns[0] / 1e6:.2f} ms, {found.error_ns[1] / 1e6:.2f} at most"
    )


def test_samples_of_recording_threads_have_roles(found: Profile) -> None:
    roles = {(thread.engine, thread.role) for thread in found.stacks.threads}
    assert {("p0", "writer"), ("d0", "writer")} <= roles
    print(f"{found.mapped:.1%} of samples have a role: {sorted(roles)}")
    assert found.mapped > 0.95


def forwards(found: Profile, stage: str, engine: str) -> tuple[str, float]:
    """(role, share of its samples in the forward) of the thread that runs the model."""
    (one,) = [each for each in found.stages if (each.stage, each.engine) == (stage, engine)]
    return max(((share.role, part(share, "forward")) for share in one.shares), key=lambda told: told[1])


def test_the_forward_shows_in_prefill_run(found: Profile) -> None:
    role, share = forwards(found, "prefill_run", "p0")
    print(f"prefill_run on p0: {role} in the forward {share:.0%}")
    assert role in ("worker", "core")
    assert share > 0.5


def test_the_writer_prepares_and_submits(found: Profile) -> None:
    """A `prepare` lasts a fraction of a millisecond, which is about how well a sample's time is known: there may be no
    sample in any, and one at its edge may be of the wait before it."""
    submit = while_open(found, "submit", "p0", "writer")
    assert submit.ends
    print(f"submit on p0's writer, {submit.samples} samples: {dict(submit.doing)}")
    assert part(submit, "NIXL post") > 0.5
    for each in found.stages:
        for writer in each.shares:
            if (each.stage, each.engine, writer.role) == ("prepare", "p0", "writer"):
                print(f"prepare on p0's writer, {writer.samples} samples: {dict(writer.doing)}")
                assert writer.samples < FEW or part(writer, WAITING) < 0.5


def test_a_thread_that_spins_shows_as_gil_wait_on_the_writer(
    rig: Rig, router: RouterProcess, found: Profile, tmp_path: Path
) -> None:
    with spinning(rig):
        faulty = profiled(rig, router, tmp_path / "profile")
    for role in ("writer", "worker"):
        before, after = (of(each.whole, "p0", role) for each in (found, faulty))
        waits = after.doing.get(GIL_WAIT, 0)
        held = sum(number for name, number in after.held_by.items() if name.startswith("spinner"))
        print(
            f"p0's {role} waited for the GIL in {part(before, GIL_WAIT):.2%}, with the spinner in"
            f" {part(after, GIL_WAIT):.2%}, held by {dict(after.held_by)}"
        )
        assert waits >= 10
        assert held > 0.8 * waits
        assert part(after, GIL_WAIT) > part(before, GIL_WAIT)
        assert not any(name.startswith("spinner") for name in before.held_by)
