"""A program started by mpirun, process by process: own arguments for each, own exit codes, own process numbers.

Each process is started through a shell that outlives the launcher's signals, so that the code with which the program
itself ended is known whatever mpirun makes of it.
"""

import os
import pathlib
import signal
import subprocess
import tempfile
import time

# $1: the folder of the job. An argument per line; no argument holds a line's end.
WRAPPER = r"""
trap : TERM INT
rank="$OMPI_COMM_WORLD_RANK"
list="$1/arguments.$rank"
[ -f "$list" ] || list="$1/arguments"
mapfile -t arguments < "$list"
bash -c 'echo $$ > "$0.new"; mv "$0.new" "$0"; exec "$@"' "$1/pid.$rank" "${arguments[@]}" > "$1/out.$rank" 2> "$1/err.$rank"
code=$?
echo $code > "$1/code.$rank"
exit $code
"""


class Job:
    """One mpirun. Ends with `wait`, at the latest when it is left."""

    def __init__(self, processes, command, others=None, cwd=".", options=(), launcher=()):
        """`others`: by process, commands of those that have another one. `options`: of mpirun; `launcher`: what stands before it."""
        self.processes = processes
        self.cwd = pathlib.Path(cwd)
        self.left_behind = set()  # files that are removed at the end
        self.holder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.holder.name)
        for name, words in {"arguments": command,
                            **{f"arguments.{rank}": words for rank, words in (others or {}).items()}}.items():
            (self.folder / name).write_text("\n".join(map(str, words)) + "\n", encoding="utf-8")
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        self.mpirun = subprocess.Popen(
            [*launcher, "mpirun", "--bind-to", "none", "--oversubscribe", *options, "-n", str(processes),
             "bash", "-c", WRAPPER, "wrapper", str(self.folder)],
            cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.mpirun.poll() is None:
            for rank in range(self.processes):
                self.signal(rank, signal.SIGKILL)
            self.mpirun.kill()
            self.mpirun.wait()
        for path in self.left_behind:
            pathlib.Path(path).unlink(missing_ok=True)
        self.holder.cleanup()

    def text(self, name, rank):
        path = self.folder / f"{name}.{rank}"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def pid(self, rank, patience=10):
        end = time.monotonic() + patience
        while not self.text("pid", rank).strip():
            if time.monotonic() > end:
                raise TimeoutError(f"process {rank} was not started")
            time.sleep(0.005)
        return int(self.text("pid", rank))

    def pids(self):
        return [self.pid(rank) for rank in range(self.processes)]

    def signal(self, rank, number):
        try:
            os.kill(self.pid(rank, 0), number)
        except (ProcessLookupError, TimeoutError):
            pass

    def wait(self, patience=60):
        """Seconds until all have ended, mpirun too."""
        begin = time.monotonic()
        self.code = self.mpirun.wait(patience)
        while any(is_alive(self.pid(rank)) for rank in range(self.processes)):
            if time.monotonic() - begin > patience:
                raise TimeoutError("orphans")
            time.sleep(0.01)
        return time.monotonic() - begin

    def exit_code(self, rank):
        text = self.text("code", rank).strip()
        return int(text) if text else None

    def exit_codes(self):
        return [self.exit_code(rank) for rank in range(self.processes)]

    def out(self, rank):
        return self.text("out", rank)

    def err(self, rank):
        return self.text("err", rank)

    def said(self):
        return "".join(f"[{rank}] {line}\n" for rank in range(self.processes) for line in self.err(rank).splitlines())


def is_alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"
