"""Cases of alerts about engines."""

from __future__ import annotations

from .case import Case, Fired, Values, counter, each, gauge, restarted

ENGINE = {"model_name": "m", "engine": "0", "engine_name": "e0"}
_E = 'model_name="m",engine="0",engine_name="e0"'


def blocks(waiting: Values, held: Values, free: float = 10, reason: str = "blocks", role: str = "kv_consumer") -> dict[
    str, Values
]:  # fmt: skip
    """An engine of 100 blocks."""
    return {
        f'kvscope_engine_requests{{{_E},state="waiting"}}': waiting,
        f'kvscope_engine_holds_total{{{_E},reason="{reason}"}}': held,
        f"kvscope_engine_kv_blocks_free{{{_E}}}": gauge((121, free)),
        f"kvscope_engine_kv_blocks{{{_E}}}": gauge((121, 100)),
        f'kvscope_engine_info{{{_E},role="{role}"}}': gauge((121, 1)),
    }


_WAIT, _HELD = gauge((121, 3)), counter((120, 1))
OUT_OF_BLOCKS = [
    Case("three wait, and a tenth is free", blocks(_WAIT, _HELD), 120, (Fired("critical", ENGINE, "3"),)),
    Case("kv_both is either", blocks(_WAIT, _HELD, role="kv_both"), 120, (Fired("critical", ENGINE, "3"),)),
    Case("the batch has no slot", blocks(_WAIT, _HELD, reason="slot"), 120),
    Case("held for blocks before, and half is free now", blocks(_WAIT, _HELD, free=60), 120),
    Case("prefill, which waits for decode", blocks(_WAIT, _HELD, role="kv_producer"), 120),
    Case("full, and nobody waits", blocks(gauge((121, 0)), _HELD), 120),
    Case("somebody waits now and then", blocks(gauge(*[(3, 2.0), (1, 0.0)] * 30), _HELD), 119),
    Case("it has just begun", blocks(gauge((60, 0), (61, 3)), _HELD), 66),
]
_TRANSFERS = f'kvscope_engine_transfers_total{{{_E},leg="prefill"}}'
_WAKING = f'kvscope_engine_stage_seconds_total{{{_E},stage="writer_wake",class="coordination"}}'
_PREPARING = f'kvscope_engine_stage_seconds_total{{{_E},stage="prepare",class="coordination"}}'


def woken(per_minute: float, ms: float, later: float | None = None) -> dict[str, Values]:
    """Transfers a minute, and how long each waited for the writer, in the first hour and later."""
    later = ms if later is None else later
    waits = counter((60, per_minute * ms / 1000), (60, per_minute * later / 1000))
    return {_TRANSFERS: counter((120, per_minute)), _WAKING: waits}


WRITER = [
    Case("30 ms each", woken(60, 30), 120, (Fired("warning", ENGINE, "30ms"),)),
    Case("many descriptors", {**woken(60, 2), _PREPARING: counter((120, 6))}, 120),
    Case("ten times the transfers, each as long", woken(600, 5), 120),
    Case("two transfers a minute", woken(2, 200), 120),
    Case("a model is being loaded", woken(60, 2, later=100), 68),
    Case("an engine restarts", each(woken(60, 12), restarted, 110), 120),
]
_BEGUN, _MADE = (f"kvscope_engine_handshakes_{end}_total{{{_E}}}" for end in ("begun", "ended"))
_REFUSED = f'kvscope_engine_failures_total{{{_E},kind="handshake"}}'
HANDSHAKE = [
    Case("begun and never made", {_BEGUN: counter((120, 1)), _MADE: counter((120, 0))}, 120,
         (Fired("critical", ENGINE, "10"),)),
    Case("four requests fail by it", {_REFUSED: counter((114, 0), (4, 1), (2, 0))}, 120,
         (Fired("critical", ENGINE, "4"),)),
    Case("ten fail by it", {_REFUSED: counter((120, 1))}, 120, (Fired("critical", ENGINE, "10"),)),
    Case("twenty engines are added", {_BEGUN: counter((59, 0), (1, 20), (60, 0)),
                                     _MADE: counter((60, 0), (1, 20), (59, 0))}, 60),
    Case("two fail", {_REFUSED: counter((110, 0), (2, 1), (8, 0))}, 120),
    Case("two are not made", {_BEGUN: counter((110, 0), (2, 1), (8, 0)), _MADE: counter((120, 0))}, 120),
    Case("four are not made", {_BEGUN: counter((114, 0), (4, 1), (2, 0)), _MADE: counter((120, 0))}, 120,
         (Fired("critical", ENGINE, "4"),)),
    Case("all are made", {_BEGUN: counter((120, 5)), _MADE: counter((120, 5))}, 120),
    Case("one fails as an engine is replaced", {_REFUSED: counter((115, 0), (1, 1), (4, 0)),
                                               _BEGUN: counter((115, 0), (1, 2), (4, 0)),
                                               _MADE: counter((115, 0), (1, 1), (4, 0))}, 120),
    Case("counters begin anew", each({_BEGUN: counter((120, 5)), _MADE: counter((120, 5))}, restarted, 115), 120),
]  # fmt: skip
_EXPIRED = f'kvscope_engine_failures_total{{{_E},kind="expired"}}'
_LEGS = f'kvscope_engine_legs_total{{{_E},leg="prefill"}}'
LEASE = [
    Case("three in two hundred", {_EXPIRED: counter((120, 0.9)), _LEGS: counter((120, 60))}, 120,
         (Fired("warning", ENGINE, "1.5%"),)),
    Case("two clients left", {_EXPIRED: counter((100, 0), (2, 1), (18, 0)), _LEGS: counter((120, 2))}, 120),
    Case("fifteen requests in half an hour", {_EXPIRED: counter((120, 0.2)), _LEGS: counter((120, 0.5))}, 120),
    Case("eight in a thousand", {_EXPIRED: counter((120, 0.8)), _LEGS: counter((120, 100))}, 120),
    Case("it has just begun", {_EXPIRED: counter((60, 0), (60, 5)), _LEGS: counter((120, 10))}, 63),
    Case("an engine restarts",
         each({_EXPIRED: counter((120, 0.4)), _LEGS: counter((120, 100))}, restarted, 110), 120),
]  # fmt: skip
_GONE, _READ = f"kvscope_engine_events_lost_total{{{_E}}}", f"kvscope_engine_events_total{{{_E}}}"


def lost(*stretches: tuple[int, float], read: float = 3000) -> dict[str, Values]:
    """Events a minute that are lost, beside those that are read."""
    return {_GONE: counter(*stretches), _READ: counter((sum(minutes for minutes, _ in stretches), read))}


LOST = [
    Case("two percent for an hour", lost((300, 0), (70, 61.224489796)), 370, (Fired("warning", ENGINE, "2%"),)),
    Case("eight in a thousand for seven hours", lost((420, 24.193548387)), 420, (Fired("warning", ENGINE, "0.8%"),)),
    Case("a reader stood still half an hour ago", lost((73, 0), (15, 330), (32, 0)), 120),
    Case("four in a thousand", lost((420, 12)), 420),
    Case("one percent for two hours", lost((300, 0), (130, 30)), 430),
    Case("five percent for a quarter of an hour", lost((300, 0), (15, 150)), 315),
    Case("two percent, and then one", lost((300, 0), (50, 60), (10, 30)), 360),
    Case("eight in a thousand, and then four", lost((360, 24), (35, 13.5)), 395),
    Case("ten events a minute", lost((120, 1), read=10), 120),
    Case("it has just begun", lost((60, 0), (60, 3000)), 63),
    Case("`kvscope serve` restarts", each(lost((420, 12)), restarted, 400), 420),
]
