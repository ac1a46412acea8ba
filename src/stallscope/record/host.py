# SPDX-License-Identifier: Apache-2.0
"""What this machine offers: everything is tried, not looked up, wherever trying does no harm.

Nothing here needs privileges, and nothing that it tries outlives it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import importlib
import mmap
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stallscope.errors import StallscopeError
from stallscope.record import perf_probe
from stallscope.record.perf_probe import Outcome

SHARED_MEMORY = Path("/dev/shm")
CAPABILITIES = {"CAP_SYS_PTRACE": 19, "CAP_SYS_ADMIN": 21, "CAP_PERFMON": 38}

_SYS_PTRACE, _SYS_USERFAULTFD = 101, 323  # x86-64
_PTRACE_SEIZE = 0x4206
_PR_SET_SYSCALL_USER_DISPATCH = 59
_UFFD_USER_MODE_ONLY, _UFFD_API, _UFFDIO_API = 1, 0xAA, 0xC018AA3F
_SOFT_DIRTY_BIT = 55

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Cache:
    level: int
    kind: str  # Data, Instruction or Unified
    size: int  # bytes
    ways: int  # 0 when the kernel does not say
    line: int  # bytes
    sets: int
    cpus: str  # that share it, as the kernel writes it: 0-3
    count: int  # of such caches in the machine


@dataclass(frozen=True, slots=True)
class Machine:
    model: str
    vendor: str
    family: int
    cores: int
    cpus: int  # that this process may use
    sockets: int
    nodes: int  # of memory
    tlb: str  # as /proc/cpuinfo gives it; Intel's does not
    page: int  # bytes
    memory: int  # bytes
    caches: tuple[Cache, ...]
    avx512: tuple[str, ...]  # feature flags
    virtual: bool
    product: str  # of the firmware: the cloud's or the machine's name
    kernel: str
    system: str
    huge_pages: str  # transparent huge pages: always, madvise or never
    huge_pages_reserved: int


@dataclass(frozen=True, slots=True)
class Settings:
    """What decides who may measure. None: this kernel has no such setting."""

    user: int
    perf_event_paranoid: int | None
    kptr_restrict: int | None
    ptrace_scope: int | None
    unprivileged_userfaultfd: int | None
    capabilities: tuple[str, ...]
    seccomp: bool
    container: str  # which kind, or empty


@dataclass(frozen=True, slots=True)
class Host:
    machine: Machine
    settings: Settings
    shared_memory_free: int  # bytes
    capture: tuple[Outcome, ...]
    counters: tuple[Outcome, ...]
    software: tuple[Outcome, ...]
    probes: tuple[Outcome, ...]
    pages: tuple[Outcome, ...]


def probe(capture: Callable[[], Outcome] | None = None) -> Host:
    """Try everything; takes about a second. `capture` stands in for running the packaged tool."""
    return Host(
        machine=machine(),
        settings=settings(),
        shared_memory_free=_free(SHARED_MEMORY),
        capture=((capture or run_capture_tool)(), shared_memory(), tracing()),
        counters=(*perf_probe.hardware(), perf_probe.precise_loads()),
        software=(*perf_probe.software(), perf_probe.clock_sampling()),
        probes=(perf_probe.watchpoint(), perf_probe.tracepoint(), perf_probe.uprobe()),
        pages=(userfaultfd(), syscall_dispatch(), soft_dirty(), page_idle()),
    )


# Files of the kernel


def _text(path: Path | str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""


def _number(path: Path | str) -> int | None:
    try:
        return int(_text(path))
    except ValueError:
        return None


def _free(folder: Path) -> int:
    try:
        status = os.statvfs(folder)
    except OSError:
        return 0
    return status.f_bavail * status.f_frsize


def settings() -> Settings:
    status = dict(line.split(":", 1) for line in _text("/proc/self/status").splitlines())
    effective = int(status.get("CapEff", "0"), 16)
    kernel = Path("/proc/sys/kernel")
    return Settings(
        user=os.geteuid(),
        perf_event_paranoid=_number(kernel / "perf_event_paranoid"),
        kptr_restrict=_number(kernel / "kptr_restrict"),
        ptrace_scope=_number(kernel / "yama/ptrace_scope"),
        unprivileged_userfaultfd=_number("/proc/sys/vm/unprivileged_userfaultfd"),
        capabilities=tuple(name for name, bit in CAPABILITIES.items() if effective >> bit & 1),
        seccomp=status.get("Seccomp", "0").strip() != "0",
        container=_container(),
    )


def _container() -> str:
    if Path("/.dockerenv").exists():
        return "Docker"
    if Path("/run/.containerenv").exists():
        return "Podman"
    groups = _text("/proc/1/cgroup")
    for word, name in (("kubepods", "Kubernetes"), ("docker", "Docker"), ("lxc", "LXC")):
        if word in groups:
            return name
    return ""


def machine() -> Machine:
    first, _, _ = _text("/proc/cpuinfo").partition("\n\n")
    pairs = (line.partition(":") for line in first.splitlines())
    fields = {name.strip(): value.strip() for name, _, value in pairs}
    flags = fields.get("flags", "").split()
    family = fields.get("cpu family", "")
    cores, sockets = _topology()
    chosen = re.search(r"\[(\w+)\]", _text("/sys/kernel/mm/transparent_hugepage/enabled"))
    firmware = Path("/sys/class/dmi/id")
    return Machine(
        model=fields.get("model name", platform.machine()),
        vendor=fields.get("vendor_id", ""),
        family=int(family) if family.isdigit() else 0,
        cores=cores,
        cpus=len(os.sched_getaffinity(0)),
        sockets=sockets,
        nodes=max(1, len(list(Path("/sys/devices/system/node").glob("node[0-9]*")))),
        tlb=fields.get("TLB size", ""),
        page=mmap.PAGESIZE,
        memory=os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE,
        caches=caches(),
        avx512=tuple(flag for flag in flags if flag.startswith(("avx512", "amx", "avx10"))),
        virtual="hypervisor" in flags,
        product=" ".join(
            filter(None, (_text(firmware / "sys_vendor"), _text(firmware / "product_name")))
        ),
        kernel=platform.release(),
        system=_system(),
        huge_pages=chosen.group(1) if chosen else "never",
        huge_pages_reserved=_number("/proc/sys/vm/nr_hugepages") or 0,
    )


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return ""


def _cpu_folders() -> list[Path]:
    return sorted(Path("/sys/devices/system/cpu").glob("cpu[0-9]*"), key=lambda p: int(p.name[3:]))


def _topology() -> tuple[int, int]:
    places = {
        (_text(cpu / "topology/physical_package_id"), _text(cpu / "topology/core_id"))
        for cpu in _cpu_folders()
        if (cpu / "topology").exists()
    }
    return len(places) or (os.cpu_count() or 1), len({socket for socket, _ in places}) or 1


def caches() -> tuple[Cache, ...]:
    """One row for each kind of cache that cores have; alike ones are counted together."""
    seen: dict[tuple[int, str, int, int, int, int], list[str]] = {}
    for cpu in _cpu_folders():
        for index in sorted((cpu / "cache").glob("index[0-9]*")):
            shape = (
                _number(index / "level") or 0,
                _text(index / "type"),
                _size(_text(index / "size")),
                _number(index / "ways_of_associativity") or 0,
                _number(index / "coherency_line_size") or 0,
                _number(index / "number_of_sets") or 0,
            )
            sharing = seen.setdefault(shape, [])
            cpus = _text(index / "shared_cpu_list")
            if cpus not in sharing:
                sharing.append(cpus)
    return tuple(
        Cache(*shape, cpus=sharing[0], count=len(sharing))
        for shape, sharing in sorted(seen.items())
    )


def _size(text: str) -> int:
    units = {"K": 1024, "M": 1024**2, "G": 1024**3}
    digits = text.rstrip("KMG")
    return int(digits) * units.get(text[-1:], 1) if digits.isdigit() else 0


# Things that are tried


def _failed(name: str, number: int, detail: str = "") -> Outcome:
    return Outcome(name, False, detail, errno.errorcode.get(number, str(number)))


def run_capture_tool() -> Outcome:
    """Runs /bin/true under the packaged capture tool."""
    name = "capture tool"
    try:
        tool = importlib.import_module("stallscope.record.tool")
        launcher = Path(tool.capture_folder()) / "launch"
    except (ImportError, AttributeError):
        return Outcome(name, False, "the capture tool is not installed")
    except StallscopeError as error:
        return Outcome(name, False, error.what)
    if not launcher.exists():
        return Outcome(name, False, f"the capture tool is not installed: {launcher} is missing")
    program = shutil.which("true") or "/bin/true"
    with tempfile.TemporaryDirectory(prefix="stallscope-", dir=_scratch()) as folder:
        options = ["--tool=stallscope", "-q", "--vgdb=no", f"--ss-folder={folder}"]
        return _run_launcher(name, [str(launcher), *options, program])


def _scratch() -> str | None:
    return str(SHARED_MEMORY) if os.access(SHARED_MEMORY, os.W_OK) else None


def _run_launcher(name: str, command: list[str]) -> Outcome:
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        return _failed(name, error.errno or 0, "it cannot be started")
    except subprocess.TimeoutExpired:
        return Outcome(name, False, "it did not end within a minute")
    if run.returncode == 0:
        return Outcome(name, True, f"ran {command[-1]}")
    words = run.stderr.strip().splitlines()
    last = f": {words[-1]}" if words else ""
    return Outcome(name, False, f"{command[-1]} ended with status {run.returncode}{last}")


def shared_memory() -> Outcome:
    """Makes and maps a file where recordings keep their ring."""
    name = "shared memory"
    try:
        with tempfile.TemporaryFile(dir=SHARED_MEMORY) as file:
            file.truncate(mmap.PAGESIZE)
            with mmap.mmap(file.fileno(), mmap.PAGESIZE) as page:
                page[0] = 1
    except OSError as error:
        return _failed(name, error.errno or 0, f"{SHARED_MEMORY} cannot be used")
    return Outcome(name, True, f"{_free(SHARED_MEMORY) // 2**20:,} MiB free in {SHARED_MEMORY}")


def tracing() -> Outcome:
    """Seizes a child of ours and lets it go by ending it."""
    name = "attaching"
    child = subprocess.Popen(["/bin/sleep", "60"], stdin=subprocess.DEVNULL)
    try:
        ctypes.set_errno(0)
        result = _libc.syscall(
            _SYS_PTRACE, ctypes.c_long(_PTRACE_SEIZE), ctypes.c_long(child.pid), None, None
        )
        number = ctypes.get_errno()
    finally:
        child.kill()
        child.wait()
    return _failed(name, number) if result != 0 else Outcome(name, True, "a child can be traced")


def userfaultfd() -> Outcome:
    name = "userfaultfd"
    limited = False
    ctypes.set_errno(0)
    fd = _libc.syscall(_SYS_USERFAULTFD, os.O_CLOEXEC)
    if fd < 0 and ctypes.get_errno() == errno.EPERM:
        limited = True
        fd = _libc.syscall(_SYS_USERFAULTFD, os.O_CLOEXEC | _UFFD_USER_MODE_ONLY)
    if fd < 0:
        return _failed(name, ctypes.get_errno())
    try:
        request = (ctypes.c_uint64 * 3)(_UFFD_API, 0, 0)
        if _libc.ioctl(fd, ctypes.c_ulong(_UFFDIO_API), ctypes.byref(request)) != 0:
            return _failed(name, ctypes.get_errno())
        words = ["faults of user code only" if limited else "faults of user code and system calls"]
        words.append("write protection" if request[1] & 1 else "no write protection")
    finally:
        os.close(fd)
    return Outcome(name, True, ", ".join(words), limited=limited or not request[1] & 1)


def syscall_dispatch() -> Outcome:
    """Switches the dispatch on for this thread, with all calls allowed, and off again."""
    name = "syscall user dispatch"
    allow = ctypes.c_char(b"\0")
    ctypes.set_errno(0)
    longs = [ctypes.c_ulong(word) for word in (1, 0, 0, ctypes.addressof(allow))]
    if _libc.prctl(_PR_SET_SYSCALL_USER_DISPATCH, *longs) != 0:
        return _failed(name, ctypes.get_errno())
    _libc.prctl(_PR_SET_SYSCALL_USER_DISPATCH, *(ctypes.c_ulong(0) for _ in range(4)))
    return Outcome(name, True, "switched on and off for a thread")


def soft_dirty() -> Outcome:
    """Clears the marks of our own pages and sees whether a write sets one again."""
    name = "soft-dirty pages"
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        page[0] = 1
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        try:
            Path("/proc/self/clear_refs").write_text("4")
            before = _soft_dirty(address)
            page[0] = 2
            after = _soft_dirty(address)
        except OSError as error:
            return _failed(name, error.errno or 0)
        except ValueError:
            return Outcome(name, False, "the page map cannot be read")
    if (before, after) != (False, True):
        return Outcome(name, False, "a write leaves no mark: not in this kernel")
    return Outcome(name, True, "a write marks its page")


def _soft_dirty(address: int) -> bool:
    with Path("/proc/self/pagemap").open("rb", buffering=0) as pages:
        pages.seek(address // mmap.PAGESIZE * 8)
        entry = pages.read(8)
    if len(entry) != 8:
        raise ValueError("short read")
    return bool(int.from_bytes(entry, "little") >> _SOFT_DIRTY_BIT & 1)


def page_idle() -> Outcome:
    name = "idle pages"
    bitmap = Path("/sys/kernel/mm/page_idle/bitmap")
    if not bitmap.exists():
        return Outcome(name, False, "not in this kernel")
    with contextlib.suppress(OSError), bitmap.open("rb", buffering=0) as pages:
        pages.read(8)
        return Outcome(name, True, "the kernel's idle marks can be read")
    return _failed(name, errno.EACCES)
