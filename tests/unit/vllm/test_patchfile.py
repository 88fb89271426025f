import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvscope.model.errors import InputError
from kvscope.vllm import authoring, importblock, patchfile
from kvscope.vllm.patchfile import Anchor, Hunk, Patch, WrongUpstream

ANCHOR = Anchor("f", "0" * 12, "-", 1, 1, "0" * 16)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), max_size=8)


@st.composite
def patched_files(draw: st.DrawFn) -> tuple[bytes, Patch]:
    lines = draw(st.lists(TEXT, min_size=1, max_size=8))
    places = sorted(draw(st.sets(st.integers(0, len(lines) - 1), max_size=4)))
    hunks = [Hunk(at, tuple(draw(st.lists(TEXT, min_size=1, max_size=3))), ANCHOR) for at in places]
    stock = "\n".join(lines).encode()
    return stock, Patch("vllm/a/b.py", patchfile.digest(stock), ("1.0",), tuple(hunks))


@given(patched_files())
def test_a_patch_is_written_read_applied_and_taken_off(made: tuple[bytes, Patch]) -> None:
    stock, patch = made
    assert patchfile.parse(patchfile.render(patch), "x") == patch
    patched = patchfile.apply(patch, stock)
    assert patchfile.remove(patch, patched) == stock


@given(patched_files())
def test_every_patched_line_knows_its_upstream_line(made: tuple[bytes, Patch]) -> None:
    stock, patch = made
    old, new = stock.split(b"\n"), patchfile.apply(patch, stock).split(b"\n")
    mapped, inserted = patchfile.origins(patch.hunks, len(new))
    kept = [number for number in range(1, len(new) + 1) if number not in inserted]
    assert [new[number - 1] for number in kept] == old
    assert [mapped[number] for number in kept] == list(range(1, len(old) + 1))
    assert all(mapped[number] == max(mapped[number - 1], 1) for number in inserted)


def test_another_file_is_refused_by_name_and_both_hashes() -> None:
    patch = Patch("vllm/a/b.py", patchfile.digest(b"one"), ("1.0",), ())
    with pytest.raises(WrongUpstream) as caught:
        patchfile.apply(patch, b"two")
    for part in ("vllm/a/b.py", patchfile.digest(b"one"), patchfile.digest(b"two")):
        assert part in str(caught.value)


def test_a_touched_patched_file_is_not_taken_for_a_patched_one() -> None:
    stock = b"a\nb\nc"
    patch = Patch("vllm/a/b.py", patchfile.digest(stock), ("1.0",), (Hunk(1, ("x",), ANCHOR),))
    assert patchfile.remove(patch, b"a\nx\nb\nc") == stock
    for touched in (b"a\ny\nb\nc", b"a\nx\nb\nd", b"a\nx", stock, b""):
        assert patchfile.remove(patch, touched) is None


HEADERS = f"# upstream: vllm/a/b.py\n# sha256: {'0' * 64}\n# releases: 1.0\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# upstream: vllm/a/b.py\n",
        HEADERS.replace("0" * 64, "00"),
        HEADERS + " context\n",
        HEADERS + "-removed\n",
        HEADERS + "+stray\n",
        HEADERS + "@@ -1,1 +1,1 @@ f after=0 before=- nth=1/1 function=0\n+x\n",
        HEADERS + "@@ -1,0 +2,2 @@ f after=0 before=- nth=1/1 function=0\n+x\n",
    ],
)
def test_what_is_no_patch_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(InputError, match=r"^some file"):
        patchfile.parse(text, "some file")


def test_the_import_block_makes_any_call_harmless() -> None:
    scope: dict[str, object] = {}
    block = "\n".join(importblock.LINES).replace("kvscope.vllm.tracepoints", "no_such_package_here")
    exec(block + "\nanswer = _kvs.anything(1, 2)", scope)
    assert scope["answer"] is None


@pytest.mark.parametrize(
    ("edited", "said"),
    [
        (b"def f(a):\n    return a\n", "line 2 of the stock file"),
        (b"def f(a):\n    b = 2\n    return a\n", "line 2 of the stock file"),
        (b"def f(a):\n    b = 1\n    return a\nx(\n", "line"),
        (b"_kvs.x()\ndef f(a):\n    b = 1\n    return a\n", "in no function"),
    ],
)
def test_an_edit_that_is_no_addition_in_a_function_is_refused(edited: bytes, said: str) -> None:
    with pytest.raises(InputError) as caught:
        authoring.make_patch("vllm/a/b.py", b"def f(a):\n    b = 1\n    return a\n", edited, "1.0")
    assert said in str(caught.value)
