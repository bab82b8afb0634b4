#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the machine instructions of CUDA kernels: registers, spills, and instructions per element. Needs no GPU.

    scripts/gpu/sass_counts.py --kernel 'select_kernel|sweep_kernel' kernels/gradient/cuda/gradient_pass.cu
    scripts/gpu/sass_counts.py --root OTHER_TREE --json rows.json kernels/gradient/cuda/magnitude.cu

A .cu file is compiled for --arch with the options of the preset cuda; a cubin or an object file is taken as it is.
cuobjdump is looked for beside nvcc, on the PATH, and in the Python package triton; CUOBJDUMP names another one.

path: the fewest instructions that a thread executes from the kernel's start to its end through as many 16-byte loads as
a path can pass: a whole tile in which nothing is found and no thread waits for another. loop: the same for one turn of a
loop with 16-byte loads, which is what counts in kernels that loop over tiles. Every instruction counts that a warp issues,
with a true predicate or not. A load is four elements of one array; the number of arrays is that of the rule of
accumulation in the kernel's name, or 1. --narrow counts 4-byte loads, one element each, in kernels without wide ones.

Exit code: 0 done, 2 bad usage, 77 a tool of the CUDA toolkit is missing.
"""
import heapq
import importlib.util
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from runs import ROOT, make_parser

OPTIONS = ["-std=c++20", "-O3", "-DNDEBUG", "--fmad=false", "--expt-relaxed-constexpr", "-DFMT_USE_CONSTEXPR=1"]
ARRAYS_OF_KIND = (1, 1, 2, 3, 3)  # that are read, by AccumulateKind
INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)\s*(.*?)\s*;")
WIDE_LOAD = re.compile(r"^LDG\.\S*128")


def missing(tool):
    print(f"sass_counts.py: {tool} is not on this machine", file=sys.stderr)
    sys.exit(77)


def find_cuobjdump():
    nvcc, triton = shutil.which("nvcc"), importlib.util.find_spec("triton")
    places = [os.environ.get("CUOBJDUMP"), shutil.which("cuobjdump")]
    places += [pathlib.Path(nvcc).with_name("cuobjdump")] if nvcc else []
    places += [pathlib.Path(triton.origin).parent / "backends/nvidia/bin/cuobjdump"] if triton else []
    return next((str(place) for place in places if place and pathlib.Path(place).exists()), None) or missing("cuobjdump")


def compile_cubin(source, root, arch, folder):
    """Compiles the device code of a .cu file and returns the cubin's path."""
    nvcc = shutil.which("nvcc") or missing("nvcc")
    target = pathlib.Path(folder) / (source.stem + ".cubin")
    subprocess.run([nvcc, *OPTIONS, f"-arch={arch}", f"-I{root}", "-cubin", "-o", str(target), str(source)], check=True)
    return target


def successors_of(code):
    """Returns the addresses that an instruction may be followed by, for every address."""
    following = dict(itertools.pairwise(code))
    joins = {}  # of a barrier register: where its threads meet
    for _, operation, operands in code.values():
        if operation.startswith("BSSY"):
            register, target = (part.strip() for part in operands.split(","))
            joins.setdefault(register, set()).add(int(target, 16))
    result = {}
    for address, (predicated, operation, operands) in code.items():
        after = result[address] = [following[address]] if address in following else []
        kind = operation.split(".")[0]
        if kind in ("BRA", "JMP"):
            conditional = predicated or ".DIV" in operation or "," in operands
            result[address] = [int(operands.split()[-1].strip("`()"), 16), *(after if conditional else [])]
        elif kind == "RET" or (kind == "EXIT" and not predicated):
            result[address] = []
        elif kind == "BSYNC":
            meets = joins.get(operands.strip(), set())
            result[address] = after if set(after) & meets else sorted(meets) + (after if predicated else [])
    return result


def read_functions(cuobjdump, binary):
    """Returns the kernels of a binary, pairs of name and code, {address: (is predicated, operation, operands)}, and their
    registers and stack bytes by name."""
    functions = []
    listing = subprocess.run([cuobjdump, "-sass", binary], check=True, capture_output=True, text=True).stdout
    for line in listing.splitlines():
        if "Function :" in line:
            functions.append((line.split(":", 1)[1].strip(), {}))
        elif functions and (match := INSTRUCTION.match(line)):
            functions[-1][1][int(match[1], 16)] = (bool(match[2]), match[3], match[4])
    usage = subprocess.run([cuobjdump, "-res-usage", binary], check=True, capture_output=True, text=True)
    resources = {name: {key: int(value) for key, value in re.findall(r"(REG|STACK|LOCAL|SHARED):(\d+)", text)}
                 for name, text in re.findall(r"Function (\S+?):\s*\n\s*(.*)", usage.stdout + usage.stderr)}
    return functions, resources


def least_instructions(code, loads_at, start, is_end):
    """Returns (loads, instructions) of the cheapest way from `start` to an end through most of the loads."""
    successors, best, queue, done = successors_of(code), {}, [(0, start, 0)], set()
    while queue:
        cost, address, loads = heapq.heappop(queue)
        if (address, loads) in done:
            continue
        done.add((address, loads))
        cost += 1
        loads = min(len(loads_at), loads + (address in loads_at))
        for after in successors[address]:
            if is_end(after):
                best.setdefault(loads, cost)
            else:
                heapq.heappush(queue, (cost, after, loads))
        if is_end(None) and code[address][1] == "EXIT":
            best.setdefault(loads, cost)
    return max(best.items(), default=(0, 0))


def count(code, used, name, options):
    operations = {address: operation for address, (_, operation, _) in code.items()}
    loads = {address for address, operation in operations.items() if WIDE_LOAD.match(operation)}
    width = 4
    if not loads and options.narrow:
        loads, width = {address for address, operation in operations.items() if operation.startswith("LDG")}, 1
    kind = re.search(r"AccumulateKind\)(\d)", name)
    arrays = options.arrays or (ARRAYS_OF_KIND[int(kind[1])] if kind else 1)
    path = least_instructions(code, loads, next(iter(code)), lambda after: after is None)
    # The turn of a loop with the fewest instructions per load.
    turns = [least_instructions(code, loads, load, lambda after, load=load: after == load) for load in loads]
    loop = min((turn for turn in turns if turn[0] > 0), key=lambda turn: turn[1] / turn[0], default=(0, 0))

    def way(kind, passed, instructions):
        return {f"{kind}_elements": passed * width // arrays or None, kind: instructions,
                f"{kind}_per_element": round(instructions * arrays / (passed * width), 2) if passed else None}

    return {"kernel": name, "registers": used.get("REG"), "stack_bytes": used.get("STACK"),
            "spills": sum(operation.startswith(("LDL", "STL")) for operation in operations.values()),
            "instructions": sum(operation != "NOP" for operation in operations.values()),
            **way("path", path[0], path[1] if loads else None), **way("loop", loop[0], loop[1] or None)}


def demangle(names):
    """Yields readable names without namespaces and parameters."""
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    for name in text.splitlines():
        name = re.sub(r"\(anonymous namespace\)::|\b(?:\w+::)+(?=\w)", "", name).removeprefix("void ")
        end = re.search(r"(?<=>)\(|^[\w:]+\(", name)
        yield (name[:end.end() - 1] if end else name).replace("unsigned int", "unsigned")


def print_table(rows):
    columns = list(rows[0])
    width = {column: max(len(column), *(len(str(row[column])) for row in rows)) for column in columns}
    for line in [dict(zip(columns, columns)), *rows]:
        print("  ".join(str("" if line[column] is None else line[column]).ljust(width[column]) for column in columns).rstrip())


def main():
    parser = make_parser(__doc__)
    parser.add_argument("binaries", nargs="+", metavar="FILE", help=".cu files below the root, cubins or object files")
    parser.add_argument("--arch", default="sm_90", help="architecture to compile for (sm_90)")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the tree of the .cu files (this one)")
    parser.add_argument("--kernel", default="", help="regular expression: only kernels whose name it finds")
    parser.add_argument("--arrays", type=int, help="arrays that the kernels load, whatever their names say")
    parser.add_argument("--narrow", action="store_true", help="count 4-byte loads where there are no wide ones")
    parser.add_argument("--json", type=pathlib.Path, help="file for the rows as a JSON array")
    options = parser.parse_args()
    cuobjdump, rows = find_cuobjdump(), []
    with tempfile.TemporaryDirectory() as folder:
        for file in options.binaries:
            if file.endswith(".cu"):
                file = compile_cubin(options.root / file, options.root, options.arch, folder)
            functions, resources = read_functions(cuobjdump, file)
            names = demangle([symbol for symbol, _ in functions])
            rows += [count(code, resources.get(symbol, {}), name, options)
                     for (symbol, code), name in zip(functions, names) if re.search(options.kernel, name)]
    if not rows:
        parser.error("no kernel has that name")
    print_table(sorted(rows, key=lambda row: row["kernel"]))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
