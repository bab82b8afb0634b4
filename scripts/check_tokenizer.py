#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares `dragonn tokenize` with tiktoken on mixed text, token by token.

    scripts/get_data.sh gpt2_tokenizer data/gpt2_tokenizer && scripts/get_data.sh english data/english
    scripts/check_tokenizer.py --tokenizer data/gpt2_tokenizer --english data/english/train.txt

The text is made up of slices of English and of Python's library, of Chinese, Japanese and Korean characters, emoji, blanks,
contractions, numbers and characters of all of Unicode; the same bytes with errors in them are tokenized by --invalid replace,
and by --invalid bytes, whose tokens must restore them. Prints both sides' tokens, and MB per second of processor time.
Exit code: 0 equal, 1 a difference, 2 bad usage, 77 tiktoken is not installed.
"""
import array
import os
import pathlib
import random
import sys
import tempfile
import time

from runs import BIN, make_parser, output_of, run_main

FILE_BYTES = 1 << 20
# GPT-2's pattern, as tiktoken has it.
PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
EMOJI = ["\U0001F600", "\U0001F468\u200D\U0001F469\u200D\U0001F467", "\U0001F44D\U0001F3FD", "\u2764\uFE0F", "\U0001F1E9\U0001F1EA"]
WORDS = ["don't", "we'll", "I'M", "they've", "x's", "3.14159", "1,000", "\u0664\u0662", "\u216B", "na\u00EFve", "e\u0301", "\t", "\n\n",
         "   ", " \n ", "\u3000", "\u00A0", "\u0085", "'", "''s", "<|endoftext|>", "\0", "...", "-->", "a" * 100, "\U00010400"]
BLOCKS = [(0x4E00, 0x9FFF), (0x3040, 0x30FF), (0xAC00, 0xD7A3), (0x0400, 0x04FF), (0x0600, 0x06FF), (0x0900, 0x097F), (1, 0xD7FF),
          (0xE000, 0x10FFFF)]


def mixed_text(draw, sources):
    """About FILE_BYTES of text."""
    parts, size = [], 0
    while size < FILE_BYTES:
        kind = draw.random()
        if kind < 0.7:
            source = draw.choice(sources)
            begin = draw.randrange(len(source))
            part = source[begin:begin + 3000]
        elif kind < 0.9:
            low, high = draw.choice(BLOCKS)
            part = "".join(chr(draw.randint(low, high)) for _ in range(draw.randint(1, 300)))
        else:
            part = draw.choice(["", " "]).join(draw.choice(EMOJI + WORDS) for _ in range(draw.randint(1, 30)))
        parts.append(part)
        size += len(part.encode())
    return "".join(parts)


def with_errors(draw, content):
    """The bytes with some others in between, so that characters end early, and none, begin anew or are too large."""
    content = bytearray(content)
    for _ in range(len(content) // 1000):
        place = draw.randrange(len(content))
        content[place:place + draw.randrange(3)] = draw.choice([b"\xff", b"\x80", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80",
                                                                b"\xc0\xaf", b"\xf4\x90\x80\x80"])
    return bytes(content)


def dragonn_tokens(options, work, texts, rule):
    """The tokens of all texts, each with its end, and the processor time."""
    for number, text in enumerate(texts):
        (work / f"{rule}{number:04}").write_bytes(text)
    before = os.times()
    output_of([options.bin / "dragonn", "tokenize", *(work / f"{rule}{number:04}" for number in range(len(texts))),
               "--output", work / f"tokens-{rule}", "--tokenizer", options.tokenizer, "--invalid", rule, "--threads", 1])
    after = os.times()
    tokens = array.array("H")
    for shard in sorted((work / f"tokens-{rule}").glob("*_*.bin")):
        tokens.frombytes(shard.read_bytes()[1024:])
    return tokens, after.children_user + after.children_system - before.children_user - before.children_system


def compare(rule, texts, tokens, expected):
    """Prints a line. Returns whether all are equal."""
    end, same = expected[-1], tokens == expected
    print(f"--invalid {rule}: {sum(map(len, texts)) / 1e6:.1f} MB, {len(tokens)} tokens: {'equal' if same else 'DIFFERENT'}")
    if not same:
        place = next((i for i, pair in enumerate(zip(tokens, expected)) if pair[0] != pair[1]), min(len(tokens), len(expected)))
        begin = max((i + 1 for i in range(place) if expected[i] == end), default=0)
        print(f"  text {expected[:begin].count(end)}, token {place - begin}: {list(tokens[place:place + 8])}, "
              f"expected {list(expected[place:place + 8])}")
    return same


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--tokenizer", type=pathlib.Path, required=True, metavar="DIR", help="folder with vocab.bpe and encoder.json")
    parser.add_argument("--english", type=pathlib.Path, metavar="FILE", help="English text (CHANGELOG.md)")
    parser.add_argument("--megabytes", type=int, default=56, metavar="N", help="of text, without errors (56)")
    parser.add_argument("--bin", type=pathlib.Path, default=BIN, metavar="DIR", help="folder of dragonn")
    options = parser.parse_args()
    try:
        import tiktoken
        import tiktoken.load
    except ImportError as error:
        print(f"skipped: {error}", file=sys.stderr)
        return 77
    os.environ["TIKTOKEN_CACHE_DIR"] = ""  # it would take files for those that had their paths before
    files = [str(options.tokenizer / name) for name in ("vocab.bpe", "encoder.json")]
    ranks = tiktoken.load.data_gym_to_mergeable_bpe_ranks(*files)
    encoding = tiktoken.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": len(ranks)})

    draw = random.Random(1)
    english = options.english or pathlib.Path(__file__).parent.parent / "CHANGELOG.md"
    library = sorted(pathlib.Path(random.__file__).parent.glob("*.py"))
    sources = [english.read_text("utf-8"), "".join(path.read_text("utf-8") for path in library)]
    texts = {"error": [mixed_text(draw, sources).encode() for _ in range(options.megabytes)]}
    texts["replace"] = texts["bytes"] = [with_errors(draw, text) for text in texts["error"][:max(1, options.megabytes // 8)]]

    good = True
    with tempfile.TemporaryDirectory() as folder:
        for rule, contents in texts.items():
            tokens, own_seconds = dragonn_tokens(options, pathlib.Path(folder), contents, rule)
            if rule == "bytes":
                restored = b"".join(encoding.decode_single_token_bytes(token) for token in tokens)
                same = restored == b"".join(text + b"<|endoftext|>" for text in contents)
                print(f"--invalid bytes: {len(tokens)} tokens {'restore' if same else 'DO NOT RESTORE'} the bytes")
                good &= same
                continue
            expected, seconds = array.array("H"), 0.0
            for text in contents:
                decoded = text.decode("utf-8", "replace")
                begin = time.process_time()
                found = encoding.encode_ordinary(decoded)
                seconds += time.process_time() - begin
                expected.extend([*found, len(ranks)])
            good &= compare(rule, contents, tokens, expected)
            megabytes = sum(map(len, contents)) / 1e6
            print(f"  dragonn {megabytes / own_seconds:.1f} MB/s, tiktoken {tiktoken.__version__} {megabytes / seconds:.1f} MB/s")
    return 0 if good else 1


if __name__ == "__main__":
    run_main(main, 2)
