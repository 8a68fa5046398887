"""Search the built documentation as its search box does, without a browser.

python scripts/search_docs.py TERM [TERM ...]      pages that each term is found on, the best first
python scripts/search_docs.py --built FOLDER TERM  another build than docs/_build/html

The rules are those of Sphinx's `searchtools.js`: titles and index entries are compared as they are written, the text
word by word after stemming and without stop words. The exit status is 1 where a term is found on no page.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import snowballstemmer

BUILT = Path(__file__).resolve().parents[1] / "docs" / "_build" / "html"
TITLE_SCORE, TEXT_TITLE_SCORE, TEXT_SCORE, ENTRY_SCORE = 15, 15, 5, 100
SHORTEST_PARTIAL_WORD = 3  # shorter words are matched in full only


class Hit(NamedTuple):
    """A page that a term is found on: where on it, and by what ("title", "index" or "text")."""

    page: str
    anchor: str
    kind: str
    score: float


class Index:
    """The search index of one build.

    Parameters
    ----------
    built : Path
        Folder that holds `searchindex.js`.
    """

    def __init__(self, built: Path = BUILT) -> None:
        script = (built / "searchindex.js").read_text(encoding="utf-8")
        self.content: dict[str, Any] = json.loads(script[script.index("(") + 1 : script.rindex(")")])
        language = (built / "_static" / "language_data.js").read_text(encoding="utf-8")
        listed = re.search(r"stopwords = new Set\((\[.*?\])\)", language)
        self.stop_words = frozenset(json.loads(listed.group(1))) if listed else frozenset()
        self.stemmer = snowballstemmer.stemmer("english")

    def search(self, term: str) -> list[Hit]:
        """Every page that the search box would list for a term, the best first, each page once."""
        hits = [*self._titles(term), *self._entries(term), *self._text(term)]
        best: dict[str, Hit] = {}
        for hit in sorted(hits, key=lambda hit: -hit.score):
            best.setdefault(hit.page, hit)
        return list(best.values())

    def _titles(self, term: str) -> list[Hit]:
        wanted = term.lower().strip()
        return [
            Hit(self.content["docnames"][page], anchor or "", "title", TITLE_SCORE * len(wanted) / len(title))
            for title, places in self.content["alltitles"].items()
            if wanted in title.lower().strip() and len(wanted) >= len(title) / 2
            for page, anchor in places
        ]

    def _entries(self, term: str) -> list[Hit]:
        wanted = term.lower().strip()
        return [
            Hit(self.content["docnames"][page], anchor, "index", ENTRY_SCORE * len(wanted) / len(entry))
            for entry, places in self.content["indexentries"].items()
            if wanted in entry and len(wanted) >= len(entry) / 2
            for page, anchor, _ in places
        ]

    def _text(self, term: str) -> list[Hit]:
        words = self._words(term)
        scores: dict[int, dict[str, float]] = {}
        for word in words:
            for pages, score in self._pages_of(word):
                for page in pages:
                    scores.setdefault(page, {})[word] = score
        enough = {len(words), sum(len(word) >= SHORTEST_PARTIAL_WORD for word in words)}
        return [
            Hit(self.content["docnames"][page], "", "text", max(matched.values()))
            for page, matched in scores.items()
            if len(matched) in enough
        ]

    def _words(self, term: str) -> set[str]:
        """The stems of a term's words, as the search box makes them."""
        words = [word for word in re.split(r"[^\w]+", term.lower()) if word]
        return {self.stemmer.stemWord(word) for word in words if word not in self.stop_words and not word.isdigit()}

    def _pages_of(self, word: str) -> list[tuple[list[int], float]]:
        """Pages with a stem in their text or in a title; where there are none, pages with words that contain it."""
        pages = []
        for name, score in (("terms", TEXT_SCORE), ("titleterms", TEXT_TITLE_SCORE)):
            terms = self.content[name]
            if word in terms:
                matched = [word]
            elif len(word) >= SHORTEST_PARTIAL_WORD:
                matched = [stem for stem in terms if word in stem]
            else:
                matched = []
            for stem in matched:
                numbers = terms[stem]
                pages.append((numbers if isinstance(numbers, list) else [numbers], float(score)))
        return pages


def main(arguments: list[str]) -> int:
    """Print the pages of each term; the exit status says whether a term is on no page."""
    parser = argparse.ArgumentParser(description="Search the built documentation.")
    parser.add_argument("terms", nargs="+", metavar="TERM")
    parser.add_argument("--built", type=Path, default=BUILT, help="folder of the build")
    options = parser.parse_args(arguments)
    if not (options.built / "searchindex.js").is_file():
        print(f"{options.built} holds no built documentation: run `make docs` first", file=sys.stderr)
        return 2
    index = Index(options.built)
    missing = False
    for term in options.terms:
        hits = index.search(term)
        missing |= not hits
        listed = ", ".join(f"{hit.page}{'#' if hit.anchor else ''}{hit.anchor} ({hit.kind})" for hit in hits[:5])
        print(f"{term}: {listed or 'not found'}")
    return int(missing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
