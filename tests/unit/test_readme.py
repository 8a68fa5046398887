"""The README's table of speed is what the committed benchmarks say; commands that are shown have their options."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from scripts.speed_table import START, STOP, inserted, table

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
TABLE = {"outcome", "probability", "logit", "positive", "weight", "count", "cluster", "by", "ignore", "effort", "seed"}
TABLE |= {"prediction", "response", "exposure"}


def test_the_table_of_speed_comes_from_the_committed_results():
    text = README.read_text(encoding="utf-8")
    assert inserted(text) == text
    between = text.split(START)[1].split(STOP)[0].strip()
    assert between == table()
    assert len(between.splitlines()) > 3


@pytest.mark.parametrize("page", [README, *sorted((ROOT / "docs").rglob("how-to/*.md"))], ids=lambda page: page.stem)
def test_commands_that_are_shown_have_the_options_that_are_shown(page):
    options = tomllib.loads((ROOT / "src/miscal/cli/options.toml").read_text(encoding="utf-8"))
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for command, given in re.findall(r"^(?:\$ )?miscal (\w+) (.*)", text, re.MULTILINE):
        words = [word.rstrip("!") for word in options[command]["options"].split()]
        known = TABLE.union(words) if "TABLE" in words else {*words}
        known |= {
            flag
            for word in words
            for flag in ({**options["all"].get(word, {}), **options[command].get(word, {})}).get("flags", [])
        }
        for option in re.findall(r"--([a-z][a-z-]*)", given.split("#")[0]):
            assert option in known or f"--{option}" in known, f"{page.name}: miscal {command} --{option}"
