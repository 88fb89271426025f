"""Rare words and numbers go through a real pair; none of them is in what is recorded, nor is an id that is hidden."""

from __future__ import annotations

import http.client
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kvscope.core.critical_path import split
from kvscope.lab.front import RouterProcess
from kvscope.probe.ids import HASH, MADE, Ids
from kvscope.sharing.share import Wishes, share
from kvscope.sources.lines import write_jsonl
from kvscope.sources.opening import open_all
from kvscope.sources.recorder import save
from tests.lab.rig import Body, Rig, asked
from tests.unit.sharing.marked import unpacked
from tests.unit.sharing.written import alike

ROUNDS = 6
TOGETHER = 5
"""So many tokens in a row are looked for."""
VOCABULARY = 512


@dataclass
class Sent:
    """What went through the pair."""

    words: list[str] = field(default_factory=list)
    """Rare words of prompts, and pieces of answers."""
    tokens: list[list[int]] = field(default_factory=list)
    """Of prompts and of answers."""
    names: list[str] = field(default_factory=list)
    """Ids that requests were sent under."""

    def in_(self, raw: bytes) -> list[object]:
        """What of it is found."""
        found: list[object] = [word for word in self.words if word.encode() in raw]
        windows = np.array([each[at : at + TOGETHER] for each in self.tokens for at in range(len(each) - TOGETHER + 1)])
        wanted = np.unique(_folded(windows.T))
        for numbers in _numbers(raw):
            rows = [numbers[at : len(numbers) - TOGETHER + 1 + at] for at in range(TOGETHER)]
            found += np.intersect1d(_folded(np.array(rows)), wanted).tolist()
        return found


def _folded(rows: np.ndarray) -> np.ndarray:
    """(TOGETHER, n) tokens in a row -> (m,) a number for each column that can be tokens."""
    rows = rows[:, (rows < VOCABULARY).all(axis=0)].astype(np.uint64)
    folded = np.zeros(rows.shape[1], np.uint64)
    for row in rows:
        folded = folded * np.uint64(VOCABULARY) + row
    return folded


def _numbers(raw: bytes) -> Iterator[np.ndarray]:
    """Everything as numbers: of each width, from each place that they could begin at, and as they are written out."""
    for width in (1, 2, 4, 8):
        for begin in range(width):
            whole = (len(raw) - begin) // width * width
            yield np.frombuffer(raw[begin : begin + whole], f"<u{width}")
    for run in re.findall(rb"\d{1,3}(?:[, \n]{1,2}\d{1,3}){4,}", raw):
        yield np.array(re.findall(rb"\d+", run), np.int64)


@dataclass
class Scene:
    """A pair that was sent something."""

    rig: Rig
    mode: str
    sent: Sent


def scene_of(rig: Rig, mode: str) -> Scene:
    """Send it."""
    return Scene(rig, mode, sent(rig, "early" if rig.options.connector == "push" else "sequential"))


def sent(rig: Rig, way: str) -> Sent:
    """Prompts as text and as tokens, through our router; each has something that no other text has."""
    chosen, found = random.Random(7), Sent()
    router = rig.front("p0", "d0", way=way)
    for number in range(ROUNDS):
        word = "".join(chosen.choices("QXZJKVqxzjkv", k=14))
        chosen_tokens = chosen.choices(range(1, 256), k=300)
        for kind, prompt in (("text", f"{word} " * 40), ("tokens", chosen_tokens)):
            name = f"customer-7-10.9.8.7-{kind}-{number}"
            choice = answered(router, name, asked([], 16) | {"prompt": prompt, "logprobs": 1})
            found.names.append(name)
            found.tokens += [choice["token_ids"], chosen_tokens if kind == "tokens" else [*word.encode()]]
            found.words += [word] if kind == "text" else []
            found.words += [choice["text"]] if len(choice["text"].encode()) >= 8 else []
    return found


def answered(router: RouterProcess, name: str, body: Body) -> Body:
    """What the first choice of a request's answer says."""
    connection = http.client.HTTPConnection(router.url.removeprefix("http://"), timeout=120)
    try:
        headers = {"Content-Type": "application/json", "X-Request-Id": name}
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        response = connection.getresponse()
        answer: Body = json.loads(response.read())
    finally:
        connection.close()
    assert response.status == 200, answer
    choice: Body = answer["choices"][0]
    return choice


def _as_it_could_be_written(tokens: list[int]) -> Iterator[bytes]:
    yield from (np.array(tokens[:8], f"<u{width}").tobytes() for width in (2, 4, 8))
    yield json.dumps(tokens[:8]).encode()


class Privacy:
    """What holds of a pair that was sent something; a module with a `scene` of its own says which pair that is."""

    def test_no_prompt_no_answer_and_no_token_is_in_the_rings(self, scene: Scene) -> None:
        raw = b"".join(path.read_bytes() for path in scene.rig.run_dir.glob("*.ring"))
        assert len(raw) > 1_000_000
        assert scene.sent.in_(raw) == []
        for token in (scene.sent.words[0].encode(), *_as_it_could_be_written(scene.sent.tokens[1])):
            assert scene.sent.in_(raw[:1000] + token), "it would be found"

    def test_nor_in_a_recording_nor_in_json_lines(self, scene: Scene, tmp_path: Path) -> None:
        path = tmp_path / "it.kvs"
        save(scene.rig.run_dir, path)
        lines = "\n".join(write_jsonl(open_all([path], None).events))
        for raw in (unpacked(path), lines.encode()):
            assert scene.sent.in_(raw) == []

    def test_ids_are_there_if_they_are_to_be_and_join_in_any_case(self, scene: Scene) -> None:
        raw = b"".join(path.read_bytes() for path in scene.rig.run_dir.glob("*.ring"))
        plain = [name for name in scene.sent.names if name.encode() in raw]
        assert plain == ([] if scene.mode == HASH else scene.sent.names)
        names = scene.sent.names
        if scene.mode == HASH:
            assert b"10.9.8.7" not in raw
            hidden = Ids((scene.rig.run_dir / MADE).read_bytes())
            names = [hidden.name(name) for name in names]
            assert all(name.encode() in raw for name in names)
        splits = scene.rig.splits()
        for name in names:
            (row,) = splits.find(name)
            assert splits[row].complete
            assert {stamp.leg for stamp in splits[row].stamps} == {"router", "prefill", "decode"}
        assert splits.tally.strays == 0

    def test_what_is_shared_of_it_says_the_same_and_names_nobody(self, scene: Scene, tmp_path: Path) -> None:
        path, out = tmp_path / "it.kvs", tmp_path / "out.kvs"
        save(scene.rig.run_dir, path)
        share([path], out, Wishes())
        alike(path, out)
        raw = unpacked(out)
        assert scene.sent.in_(raw) == []
        for word in (*scene.sent.names, "10.9.8.7", str(scene.rig.run_dir)):
            assert word.encode() not in raw
        for process in open_all([path], None).events.processes:
            told = (process.engine_id, process.started.get("node_name", ""), process.started.get("model", ""))
            assert not [text for text in told if len(text) > 3 and text.encode() in raw]
        assert len(split(open_all([out], None).events)) == len(scene.rig.splits())
