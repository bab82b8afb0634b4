#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes a text to train on of English books: scripts/english_text.py FOLDER, which scripts/get_data.sh english calls.

FOLDER has what is in the packages anarchism, dict-foldoc, dict-gcide and dict-jargon. Pages lose their markup; dictionaries
lose pronunciations, sources, usage labels and etymologies. A paragraph is a line; paragraphs that are mostly not words, such as
tables, are left out. FOLDER/validation.txt has every hundredth piece of 32 KiB, FOLDER/train.txt all others.
"""
import gzip
import html.parser
import pathlib
import re
import sys

PIECE_BYTES, HELD_OUT_PIECES = 32768, 100
SHARE_OF_WORDS = 0.85  # least share of a paragraph's characters that are letters and blanks
# GCIDE's h['e]r['e]ditaire, pr[e^]cis, C[ae]sar.
ACCENTED = re.compile(r"\[(?:[^A-Za-z\[\] ]+([A-Za-z]{1,2})|([A-Za-z]{1,2}(?=\^)|[AO]E|[ao]e)\^?)\]")
MARKUP = re.compile(r"\\[^\\\n]*\\|\[[^\[\]]*\]|<[a-z ,]+>|[{}]")


class Page(html.parser.HTMLParser):
    """The paragraphs of a page."""

    BLOCKS = {"p", "h1", "h2", "h3", "h4", "h5", "h6", "li", "blockquote", "div", "br", "td"}

    def __init__(self, text):
        super().__init__()
        self.text, self.ignored = "", False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.ignored = tag in ("head", "script", "style") or (self.ignored and tag not in self.BLOCKS)
        self.text += "\n\n" if tag in self.BLOCKS else ""

    def handle_data(self, data):
        self.text += "" if self.ignored else data


def paragraphs(folder):
    for page in sorted(folder.glob("anarchism/usr/share/doc/anarchism/html/*.html")):
        yield from re.split(r"\n\s*\n", Page(page.read_text("utf-8", "replace")).text)
    for dictionary in sorted(folder.glob("dict-*/usr/share/dictd/*.dict.dz")):
        for entry in re.split(r"\n\s*\n", gzip.decompress(dictionary.read_bytes()).decode("utf-8", "replace")):
            yield MARKUP.sub("", MARKUP.sub("", ACCENTED.sub(r"\1\2", entry)))  # brackets in brackets


def main():
    folder = pathlib.Path(sys.argv[1])
    texts, piece, size, number = {"train": [], "validation": []}, [], 0, 0
    for paragraph in paragraphs(folder):
        line = re.sub(r" ([,.;:)])", r"\1", " ".join(paragraph.split()))
        if sum(c.isalpha() or c == " " for c in line) < SHARE_OF_WORDS * max(len(line), 20):
            continue
        if size >= PIECE_BYTES:
            number, size = number + 1, 0
        texts["validation" if number % HELD_OUT_PIECES == HELD_OUT_PIECES - 1 else "train"].append(line + "\n")
        size += len(line.encode()) + 1
    for name, lines in texts.items():
        (folder / f"{name}.txt").write_text("".join(lines), "utf-8")


if __name__ == "__main__":
    main()
