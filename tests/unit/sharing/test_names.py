"""Names that stand for names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscope.probe.ids import HASH
from kvscope.sharing import texts
from kvscope.sharing.known import known
from kvscope.sharing.names import Names

KEY = b"k" * 32


def test_counted_ones_are_counted_by_kind() -> None:
    names = Names(None, HASH)
    names.engines({"10.0.0.1:5600": "P1"})
    assert [names.of("host", text) for text in ("a", "b", "a")] == ["h1", "h2", "h1"]
    assert [names.of("engine", text) for text in ("10.0.0.1:5600", "elsewhere", "router", "")] == [
        "P1",
        "e1",
        "router",
        "",
    ]
    assert [names.number("pid", text) for text in ("x", "y", "x")] == [1, 2, 1]
    assert Names(None, HASH).of("reason", "a") != names.of("reason", "a") == names.of("reason", "a")


def test_made_ones_are_the_same_wherever_the_key_is() -> None:
    one, other = Names(KEY, HASH), Names(KEY, HASH)
    other.of("host", "b")
    assert one.of("host", "a") == other.of("host", "a") != one.of("host", "b")
    assert one.number("pid", "x") == other.number("pid", "x")
    assert one.shift("a", 5) == other.shift("a", 7) != one.shift("b", 5)
    assert Names(b"l" * 32, HASH).of("host", "a") != one.of("host", "a")
    assert len(one.of("host", "a")) <= 12
    assert one.of("host", "a")[:8] != one.of("host", "b")[:8], "readers tell hosts by their first letters"


def test_what_is_to_stay_stays() -> None:
    assert Names(KEY, HASH, ("model",)).of("model", "llama") == "llama"


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        ("version", "0.33.0", "0.33.0"),
        ("version", "2.13.0+cpu", "2.13.0+cpu"),
        ("version", "2.9.1+cu128", "2.9.1+cu128"),
        ("version", "0.11.1rc2.dev118+g1f3a9c04d.acme", "0.11.1rc2.dev118"),
        ("version", "0.33.0+acme.internal", "0.33.0"),
        ("version", "0.33.0-acme", None),
        ("version", "acme", None),
        ("version", "0.33.0\nacme", None),
        ("connector", "NixlPushConnector", "NixlPushConnector"),
        ("connector", "AcmeConnector", None),
        ("transports", "tcp,^cuda_ipc,sm", "tcp,^cuda_ipc,sm"),
        ("transports", "tcp,acme", None),
        ("digest", "3ce73909a80490f0", "3ce73909a80490f0"),
        ("digest", "3ce73909a80490f", None),
        ("executor", "mp", "mp"),
        ("executor", "acme.Executor", None),
    ],
)
def test_what_is_known_of_a_text(kind: str, text: str, told: str | None) -> None:
    assert known(kind, text) == told


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=60))
def test_texts_come_out_once_for_each_time_they_were_told(orders: list[tuple[bool, int]]) -> None:
    """In whichever order texts and the records that name them come."""
    kept = texts.Texts()
    out: list[int] = []
    for telling, key in orders:
        found = kept.tell([(key, f"text {key}")]) if telling else kept.name([key])
        assert all(text == f"text {number}" for number, text in found)
        out += [number for number, _ in found]
    for key in range(10):
        told, named = ({at for at, order in enumerate(orders) if order == (telling, key)} for telling in (True, False))
        assert (key in out) == bool(told and named)


def test_texts_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "WAITING", 3)
    kept = texts.Texts()
    kept.tell([(key, str(key)) for key in range(10)])
    assert kept.name(range(10)) == [(7, "7"), (8, "8"), (9, "9")]
    assert kept.tell([(key, str(key)) for key in range(7)]) == [(4, "4"), (5, "5"), (6, "6")]
