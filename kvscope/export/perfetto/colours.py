"""Colours. The page draws a slice in the colour that it makes of the slice's correlation id, by hashing it.

The numbers were chosen so that Perfetto's hash (v52) comes near to the colours of the reports. Another version may draw
other colours: all stages of a class still share theirs.
"""

from __future__ import annotations

from kvscope.model.stages import STAGES, Class

OF_CLASS: dict[Class, str] = {
    Class.FRONTEND: "frontend 396",
    Class.COMPUTE_WAIT: "compute wait 589",
    Class.COMPUTE_RUN: "compute run 563",
    Class.COORDINATION: "coordination 11",
    Class.TRANSFER: "transfer 100",
    Class.UNDETERMINED: "undetermined 563",
}
FAILURE = "failure 377"
HELD, ANSWER = "held 168", "answer 153"
"""KV blocks held without use; tokens after the first."""
STEP, IDLE = "step 926", "idle 119"
OF_STAGE: tuple[str, ...] = tuple(OF_CLASS[stage.cls] for stage in STAGES)
