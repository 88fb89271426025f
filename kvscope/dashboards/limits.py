"""Every threshold of the panels, with its reason."""

from __future__ import annotations

from kvscope.dashboards.panels import Limits, nothing_bad

SCALE = nothing_bad("what is slow depends on the model and the prompt; compare with the hours before, or set --slo")
LOAD = nothing_bad("it says how much there is to do, not how well it goes")
FACT = nothing_bad("a fact, not a measure")
COMPARED = nothing_bad("one engine is judged by the others beside it")

COORDINATION = Limits(
    "below a tenth, all that arranging better could win is lost in the noise of queues; from a quarter on it is the"
    " first thing to mend",
    0.10,
    0.25,
)
SLO = Limits("with 5 % missing an objective for p95 is just met; at 10 % it is missed by far", 0.95, 0.90, low=True)
UNKNOWN_SHARE = Limits(
    "the headline is said only where it holds whatever the undetermined time was; beyond a fifth it seldom is",
    0.10,
    0.20,
)
UNATTRIBUTED = Limits("the table of stages explains everything that is known to happen; what is left is a gap in it",
                      0.001, 0.01)  # fmt: skip
HANGS = Limits(
    "the lease of prefill's blocks is 30 s by default in vLLM: what is older is not waiting but lost", 10, 30
)
NOTICE = Limits("a completion is polled for once a step: steps take some 10 ms to 50 ms, and a long prompt's some 500",
                0.05, 0.5)  # fmt: skip
POST = Limits("posting some 200 descriptors takes 5 ms to 10 ms on its own thread; beyond that it holds up a step",
              0.01, 0.05)  # fmt: skip
RESERVED = Limits("a tenth of decode's cache empty is a tenth fewer requests there; a quarter is an engine in four",
                  0.10, 0.25)  # fmt: skip
EQUIVALENTS = Limits("one decode engine's cache, paid for and empty, is the price of one more", 0.5, 1.0)
REGRET = Limits("with two decode engines that are alike, chance alone regrets a few in a hundred; one in four says that"
                " the choice does not look at load", 0.10, 0.25)  # fmt: skip
FREE_BLOCKS = Limits("below a tenth, the next long prompt may have to wait for blocks; below a fiftieth it does",
                     0.10, 0.02, low=True)  # fmt: skip
CONNECTOR = Limits("it is paid with every token: 2 % is noise of a step, 5 % shows in TPOT", 0.02, 0.05)
BACKLOG = Limits("the writer drains at every wake-up: what stays behind says that it gets no CPU", 8, 32)
SOME = Limits("each is a request without an answer, or one computed twice", 1e-9, 0.1)
ANY = Limits("there should be none: numbers beside it lack what was lost", 1e-9, 1e-2)
COMPLETE = Limits("times are of complete requests alone: with one in a hundred missing p99 is unsure, with one in"
                  " twenty p95 is", 0.99, 0.95, low=True)  # fmt: skip
CLOCK = Limits(
    "stages shorter than the bound are not to be trusted: many are about 1 ms, most below 10 ms", 0.001, 0.01
)
YES = Limits("1 is yes, and no is what has to be looked into", 1.0, 0.5, low=True)
CERTIFICATE = Limits("as a rule it is renewed a month before: with two weeks left that has failed, and three days are"
                     " what a person needs", 14 * 86_400, 3 * 86_400, low=True)  # fmt: skip
QUIET = Limits(
    "an engine that works says something with every step: after a minute it is idle, after five gone", 60, 300
)
READING = Limits("reading is to be unnoticed beside the engines: a tenth of a core; at half of one,"
                 " events are lost next", 0.1, 0.5)  # fmt: skip
