"""Tables as plain text."""

from __future__ import annotations

from kvscope.cli.tables import plain


def test_columns_stand_two_blanks_apart_and_numbers_to_the_right() -> None:
    table = plain(("engine", "pid"), [("p0", "7"), ("decode0", "1234")], frozenset({"pid"}))
    assert table == "engine    pid\np0          7\ndecode0  1234"


def test_a_cell_can_neither_steer_the_terminal_nor_begin_a_line() -> None:
    assert plain(("engine",), [("p\x1b[2J\n0\u202e",)]) == "engine\np?[2J?0?"
