# SPDX-License-Identifier: MIT
"""The environments in which peers run. A peer is measured in each of them, and its fastest figure counts."""
import argparse
import re

DEFAULT = "default"
TUNED = "tuned"


def has_avx512():
    try:
        with open("/proc/cpuinfo", encoding="ascii") as file:
            return "avx512f" in file.read()
    except OSError:
        return False


def tuned():
    """glibc keeps freed memory and takes huge pages: PyTorch returns every large tensor to the system otherwise, which costs
    a page fault for every 4 KiB of the next one. PyTorch's own kernels use AVX-512 where the processor has it."""
    environment = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "1099511627776", "MALLOC_TOP_PAD_": "67108864",
                   "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    return environment | ({"ATEN_CPU_CAPABILITY": "avx512"} if has_avx512() else {})


def parse_baseline(text):
    """(name, environment) of "NAME: VARIABLE=VALUE VARIABLE=VALUE"."""
    name, colon, rest = text.partition(":")
    pairs = [word.partition("=") for word in rest.split()]
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", name) or not colon or not pairs or not all(key and sign for key, sign, _ in pairs):
        raise argparse.ArgumentTypeError(
            f"'{text}': expected NAME: VARIABLE=VALUE ..., such as 'jemalloc: LD_PRELOAD=libjemalloc.so.2'")
    if name in (DEFAULT, TUNED):
        raise argparse.ArgumentTypeError(f"'{text}': the name {name} is taken")
    return name, {key: value for key, _, value in pairs}


def add_option(parser):
    parser.add_argument("--baseline", action="append", default=[], type=parse_baseline, metavar="'NAME: VARIABLE=VALUE ...'",
                        help=f"also run PyTorch in this environment, beside {DEFAULT} and {TUNED} (repeatable)")


def environments(options):
    """Environment variables by the baseline's name."""
    return {DEFAULT: {}, TUNED: tuned(), **dict(options.baseline)}


def describe(names_and_environments):
    """A line for each baseline that sets variables: what a page has to name."""
    return [f"PyTorch, {name}: " + " ".join(f"{key}={value}" for key, value in environment.items())
            for name, environment in names_and_environments.items() if environment]
