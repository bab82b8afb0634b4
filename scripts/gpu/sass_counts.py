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
import argparse
import heapq
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPTIONS = ["-std=c++20", "-O3", "-DNDEBUG", "--fmad=false", "--expt-relaxed-constexpr", "-DFMT_USE_CONSTEXPR=1"]
ARRAYS_OF_KIND = {"0": 1, "1": 1, "2": 2, "3": 3, "4": 3}  # AccumulateKind: arrays that are read
INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)\s*(.*?)\s*;")
WIDE_LOAD = re.compile(r"^LDG\.\S*128")


def missing(tool):
    print(f"sass_counts.py: {tool} is not on this machine", file=sys.stderr)
    sys.exit(77)


def find_cuobjdump():
    """Returns the path of cuobjdump."""
    nvcc = shutil.which("nvcc")
    triton = importlib.util.find_spec("triton")
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


class Function:
    """A kernel: its instructions by address."""

    def __init__(self, name):
        self.name = name
        self.addresses = []
        self.code = {}  # address: (is predicated, operation, operands)

    def add(self, address, predicate, operation, operands):
        self.addresses.append(address)
        self.code[address] = (bool(predicate), operation, operands)

    def successors(self):
        """Returns the addresses that an instruction may be followed by, for every address."""
        following = dict(zip(self.addresses, self.addresses[1:]))
        joins = {}  # of a barrier register: where its threads meet
        for _, operation, operands in self.code.values():
            if operation.startswith("BSSY"):
                register, target = (part.strip() for part in operands.split(","))
                joins.setdefault(register, set()).add(int(target, 16))
        result = {}
        for address, (predicated, operation, operands) in self.code.items():
            after = [following[address]] if address in following else []
            kind = operation.split(".")[0]
            if kind in ("BRA", "JMP"):
                target = [int(operands.split()[-1].strip("`()"), 16)]
                conditional = predicated or ".DIV" in operation or "," in operands
                result[address] = target + (after if conditional else [])
            elif kind == "EXIT":
                result[address] = after if predicated else []
            elif kind == "RET":
                result[address] = []
            elif kind == "BSYNC":
                meets = joins.get(operands.strip(), set())
                result[address] = after if set(after) & meets else sorted(meets) + (after if predicated else [])
            else:
                result[address] = after
        return result


def read_functions(cuobjdump, binary):
    """Returns the kernels of a binary, and their registers and stack bytes by name."""
    functions = []
    listing = subprocess.run([cuobjdump, "-sass", str(binary)], check=True, capture_output=True, text=True).stdout
    for line in listing.splitlines():
        if "Function :" in line:
            functions.append(Function(line.split(":", 1)[1].strip()))
        elif functions and (match := INSTRUCTION.match(line)):
            functions[-1].add(int(match[1], 16), match[2], match[3], match[4])
    usage = subprocess.run([cuobjdump, "-res-usage", str(binary)], check=True, capture_output=True, text=True)
    resources = {}
    for name, text in re.findall(r"Function (\S+?):\s*\n\s*(.*)", usage.stdout + usage.stderr):
        resources[name] = {key: int(value) for key, value in re.findall(r"(REG|STACK|LOCAL|SHARED):(\d+)", text)}
    return functions, resources


def least_instructions(function, is_load, start, is_end, most):
    """Returns (loads, instructions) of the cheapest way from `start` to an end through most loads, up to `most`."""
    successors = function.successors()
    best = {}
    queue = [(0, start, 0)]
    done = set()
    while queue:
        cost, address, loads = heapq.heappop(queue)
        if (address, loads) in done:
            continue
        done.add((address, loads))
        cost += 1
        loads = min(most, loads + (address in is_load))
        for after in successors[address]:
            if is_end(after):
                best.setdefault(loads, cost)
            else:
                heapq.heappush(queue, (cost, after, loads))
        if is_end(None) and function.code[address][1] == "EXIT":
            best.setdefault(loads, cost)
    return max(best.items(), default=(0, 0))


def count_loop(function, loads):
    """Returns (loads, instructions) of the loop turn with the fewest instructions per load, (0, 0) without a loop."""
    turns = [least_instructions(function, loads, load, lambda after, load=load: after == load, len(loads)) for load in loads]
    return min((turn for turn in turns if turn[0] > 0), key=lambda turn: turn[1] / turn[0], default=(0, 0))


def count(function, resources, name, options):
    """Returns the row of a kernel."""
    operations = {address: code[1] for address, code in function.code.items()}
    loads = {address for address, operation in operations.items() if WIDE_LOAD.match(operation)}
    width = 4
    if not loads and options.narrow:
        loads, width = {address for address, operation in operations.items() if operation.startswith("LDG")}, 1
    kind = re.search(r"AccumulateKind\)(\d)", name)
    arrays = options.arrays or (ARRAYS_OF_KIND[kind[1]] if kind else 1)
    start = function.addresses[0]
    path = least_instructions(function, loads, start, lambda after: after is None, len(loads))
    loop = count_loop(function, loads)
    used = resources.get(function.name, {})

    def per_element(way):
        return round(way[1] * arrays / (way[0] * width), 2) if way[0] else None

    def elements(way):
        return way[0] * width // arrays or None

    return {"kernel": name, "registers": used.get("REG"), "stack_bytes": used.get("STACK"),
            "spills": sum(operation.startswith(("LDL", "STL")) for operation in operations.values()),
            "instructions": sum(operation != "NOP" for operation in operations.values()),
            "path_elements": elements(path), "path": path[1] if loads else None, "path_per_element": per_element(path),
            "loop_elements": elements(loop), "loop": loop[1] or None, "loop_per_element": per_element(loop)}


def demangle(names):
    """Returns readable names without namespaces and parameters."""
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    short = []
    for name in text.splitlines():
        name = re.sub(r"\(anonymous namespace\)::|\b(?:\w+::)+(?=\w)", "", name)
        name = re.sub(r"^void ", "", name)
        end = re.search(r"(?<=>)\(|^[\w:]+\(", name)
        short.append((name[:end.end() - 1] if end else name).replace("unsigned int", "unsigned"))
    return short


def print_table(rows):
    columns = list(rows[0])
    width = {column: max(len(column), *(len(str(row[column])) for row in rows)) for column in columns}
    for line in [dict(zip(columns, columns)), *rows]:
        print("  ".join(str("" if line[column] is None else line[column]).ljust(width[column]) for column in columns).rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", nargs="+", metavar="FILE", help=".cu files below the root, cubins or object files")
    parser.add_argument("--arch", default="sm_90", help="architecture to compile for (sm_90)")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the tree of the .cu files (this one)")
    parser.add_argument("--kernel", default="", help="regular expression: only kernels whose name it finds")
    parser.add_argument("--arrays", type=int, help="arrays that the kernels load, whatever their names say")
    parser.add_argument("--narrow", action="store_true", help="count 4-byte loads where there are no wide ones")
    parser.add_argument("--json", type=pathlib.Path, help="file for the rows as a JSON array")
    options = parser.parse_args()
    cuobjdump = find_cuobjdump()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for file in options.binaries:
            binary = pathlib.Path(file)
            if binary.suffix == ".cu":
                binary = compile_cubin(options.root / binary, options.root, options.arch, folder)
            functions, resources = read_functions(cuobjdump, binary)
            names = demangle([function.name for function in functions]) if functions else []
            rows += [count(function, resources, name, options) for function, name in zip(functions, names)
                     if re.search(options.kernel, name)]
    if not rows:
        parser.error("no kernel has that name")
    print_table(sorted(rows, key=lambda row: row["kernel"]))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
