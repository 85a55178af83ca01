"""No offset is computed in 32 bits: a product of two ints never becomes an index, a size or a byte offset.

Runs one check of clang-tidy over the files that compute boxes and offsets, all at once since most of its time is headers, and
first proves on planted products that it finds them. Without clang-tidy the test is skipped, visibly. Tensors of more than 2^31
bytes are walked in tests/cpu/collective_bytes_test.cpp; this holds for the products no test reaches.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

from support.project_files import ROOT, SKIPPED

CHECK = "bugprone-implicit-widening-of-multiplication-result"
FILES = {
    "backends/cpu": ("collectives.cpp", "kernels/boxing.cpp", "kernels/shared/boxes.cpp", "prepared_program.cpp",
                     "script_interpreter.cpp"),
    "compiler": ("expand/boxing_graph.cpp", "expand/boxing_host.cpp", "memory/memory_plan.cpp"),
    "core": ("base/elements.cpp", "collective_script/collective_script.cpp", "costs/communication_volume.cpp", "graphs/initial_contents.cpp", "tensors/mesh_boxes.cpp",
             "tensors/placement.cpp", "tensors/sbp.cpp", "tensors/shape.cpp"),
    "sbp": ("boxing_steps.cpp", "group_costs.cpp"),
}

PLANTED = {
    "an offset": "std::int64_t offset(int row, int width) { return row * width; }",
    "a size": "std::size_t size(unsigned rows, unsigned width) { return rows * width; }",
    "a pointer": "char* at(char* data, int row, int width) { return data + row * width; }",
}
FINE = "std::int64_t offset(std::int64_t row, int width) { return row * width; }"


def findings(path):
    """Lines that the check complains about, or an error text when the file does not parse."""
    command = [
        "clang-tidy", "--quiet", "--header-filter=.*", f"--checks=-*,{CHECK}", f"--warnings-as-errors={CHECK}", str(path), "--",
        "-std=c++20", "-DSEXTANT_CHECKED=1", f"-I{ROOT}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in result.stdout.splitlines() if CHECK in line or "error:" in line]
    if result.returncode != 0 and not lines:
        lines = [f"{path}: clang-tidy failed: {result.stderr.strip()}"]
    return lines


def findings_of_sources(scratch, name, paths):
    """Findings in `paths`, compiled together as the source `name`."""
    together = pathlib.Path(scratch) / f"{name}.cpp"
    together.write_text("".join(f'#include "{path}"\n' for path in paths), encoding="utf-8")
    return findings(together)


def check_that_it_finds(scratch):
    broken = []
    for number, (name, code) in enumerate({**PLANTED, "nothing": FINE}.items()):
        path = pathlib.Path(scratch) / f"planted{number}.cpp"
        path.write_text(f"#include <cstddef>\n#include <cstdint>\n{code}\n", encoding="utf-8")
        if bool(findings_of_sources(scratch, f"together{number}", [path])) != (name != "nothing"):
            broken.append(f"a planted file with {name} in 32 bits was judged wrongly")
    return broken


def main():
    if shutil.which("clang-tidy") is None:
        print("skipped: clang-tidy is not installed")
        return SKIPPED
    paths = [ROOT / folder / name for folder, names in FILES.items() for name in names]
    missing = [f"{path}: no such file" for path in paths if not path.is_file()]
    with tempfile.TemporaryDirectory() as scratch:
        broken = check_that_it_finds(scratch) + findings_of_sources(scratch, "together", paths)
    for line in broken + missing:
        print(line)
    print(f"{len(paths)} files, {len(broken) + len(missing)} findings")
    return 1 if broken or missing else 0


if __name__ == "__main__":
    sys.exit(main())
