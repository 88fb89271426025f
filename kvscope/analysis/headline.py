"""What leads the time to first token, said only where it holds whatever the undetermined time was."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvscope.analysis.bands import CLASS_OF_STAGE, CLASSES, Band
from kvscope.model.graph import STAGE_INDEX
from kvscope.model.stages import STAGES, Class


@dataclass(frozen=True)
class Leader:
    """The class that a band spent most on, or the classes between which that is undecided."""

    band: Band
    classes: tuple[Class, ...]
    """one: it leads at both bounds; several: each of them may lead, greatest lower bound first"""
    stage: str
    """largest stage of the leading classes"""

    @property
    def decided(self) -> bool:
        """Whether one class leads at both bounds."""
        return len(self.classes) == 1

    @property
    def stage_ns(self) -> float:
        """What the band's requests spent in that stage."""
        return float(self.band.exposed[STAGE_INDEX[self.stage]])


def leading(bands: tuple[Band, ...]) -> tuple[Leader, ...]:
    """Leaders of the slow requests and of the median; of the median alone where there are too few to be slow."""
    by_name = {band.name: band for band in bands}
    names = [name for name in ("p95", "p50") if name in by_name and (name == "p50" or by_name[name].count > 1)]
    return tuple(leader_of(by_name[name]) for name in names)


def leader_of(band: Band) -> Leader:
    """The leader of one band."""
    classes: list[Class] = [cls for cls in CLASSES if cls is not Class.UNDETERMINED]
    bounds = {cls: band.bounds_ns(cls) for cls in classes}
    least = max(low for low, _ in bounds.values())
    able: list[Class] = sorted((cls for cls in classes if bounds[cls][1] >= least), key=lambda cls: -bounds[cls][0])
    if bounds[able[0]][0] <= 0:
        able = [Class.UNDETERMINED]
    return Leader(band, tuple(able), _largest(band, able))


def _largest(band: Band, classes: list[Class]) -> str:
    inside = np.isin(CLASS_OF_STAGE, [CLASSES.index(cls) for cls in classes])
    return STAGES[int(np.argmax(np.where(inside, band.exposed, -1.0)))].name
