# SPDX-License-Identifier: Apache-2.0
"""What works on a machine, why the rest does not, and what to do about it.

Tables in, result out: the machine has been tried already (record/host.py); here the kernel's
answers are explained from its settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from stallscope.showing import Shown

if TYPE_CHECKING:
    from stallscope.record.host import Host, Machine, Settings
    from stallscope.record.perf_probe import Outcome

Status = Literal["works", "limited", "missing"]

# Shared memory that one recorded process may come to use: header, buffers and counters of its ring.
RING_MIB = 41
_COMFORTABLE_PROCESSES = 4

_RECORDING = "recording"
_SAMPLING = "sampling by clock, software events"
_COUNTERS = "hardware counters"
_PROBES = "watchpoints and probes"
_PAGES = "page tracking"
_PERMISSIONS = "permissions"
_ELSEWHERE = "stallscope record --source valgrind counts without the processor's help"


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    group: str
    status: Status
    detail: str  # what was found
    why: str = ""  # when it does not work in full
    fix: str = ""  # a command, or what to change


@dataclass(frozen=True, slots=True)
class Doctor(Shown):
    rows: tuple[Check, ...]
    machine: Machine


def doctor(host: Host) -> Doctor:
    return Doctor(
        rows=(
            *_recording(host),
            *(_sampling(o, host) for o in host.software),
            *(_counter(o, host) for o in host.counters),
            *(_probe(o, host) for o in host.probes),
            *(_page(o, host) for o in host.pages),
            *_permissions(host.settings),
        ),
        machine=host.machine,
    )


def _check(outcome: Outcome, group: str, why: str = "", fix: str = "") -> Check:
    status: Status = "missing"
    if outcome.works:
        status = "limited" if outcome.limited else "works"
    if status == "works":
        why = fix = ""
    detail = outcome.detail or (f"refused with {outcome.error}" if outcome.error else "")
    return Check(outcome.name, group, status, detail, why, fix)


# Recording


def _recording(host: Host) -> Iterator[Check]:
    for outcome in host.capture:
        if outcome.name == "shared memory":
            yield _shared_memory(outcome, host)
        elif outcome.name == "attaching":
            yield _attaching(outcome, host.settings)
        else:
            yield _capture_tool(outcome)
    yield _avx512(host.machine)


def _capture_tool(outcome: Outcome) -> Check:
    if "not installed" in outcome.detail:
        return _check(
            outcome,
            _RECORDING,
            "the package was built without it",
            "make build, or pip install .",
        )
    return _check(
        outcome, _RECORDING, "the tool started and failed", "stallscope record --debug -- /bin/true"
    )


def _shared_memory(outcome: Outcome, host: Host) -> Check:
    fix = "sudo mount -o remount,size=1G /dev/shm"
    if host.settings.container:
        fix = "start the container with more, for example: docker run --shm-size=1g"
    if not outcome.works:
        return _check(outcome, _RECORDING, "recorded programs hand their records over in it", fix)
    processes = host.shared_memory_free // (RING_MIB << 20)
    if processes >= _COMFORTABLE_PROCESSES:
        return _check(outcome, _RECORDING)
    status: Status = "limited" if processes else "missing"
    why = f"a recorded process takes up to {RING_MIB} MiB, so this is enough for {processes}"
    return Check(outcome.name, _RECORDING, status, outcome.detail, why, fix)


def _attaching(outcome: Outcome, settings: Settings) -> Check:
    if not outcome.works:
        why = f"the kernel refused ptrace ({outcome.error}){_seccomp(settings)}"
        fix = "sudo sysctl kernel.yama.ptrace_scope=1"
        if settings.container:
            fix = "docker run --cap-add SYS_PTRACE"
        return _check(outcome, _RECORDING, why, fix)
    scope = settings.ptrace_scope or 0
    if scope == 0 or "CAP_SYS_PTRACE" in settings.capabilities:
        return Check(outcome.name, _RECORDING, "works", "all processes of the same user")
    why = f"kernel.yama.ptrace_scope is {scope}; 0 is needed for processes started elsewhere"
    fix = "sudo sysctl kernel.yama.ptrace_scope=0"
    return Check(outcome.name, _RECORDING, "limited", "children of the recorder", why, fix)


def _avx512(machine: Machine) -> Check:
    name = "AVX-512 programs"
    if not machine.avx512:
        return Check(name, _RECORDING, "works", "this processor has none")
    return Check(
        name,
        _RECORDING,
        "limited",
        "the processor has it; recorded programs are told that it has not",
        "Valgrind has no AVX-512: programs that ask first take another way, others are refused",
        "build with -mno-avx512f, or: stallscope record --source clock",
    )


# Performance events


def _seccomp(settings: Settings) -> str:
    if not settings.seccomp:
        return ""
    return "; a seccomp filter" + (f" of {settings.container}" if settings.container else "")


def _refused(outcome: Outcome, settings: Settings, needed: int) -> tuple[str, str]:
    """Why perf_event_open failed for lack of permission, and the command that gives it."""
    paranoid = settings.perf_event_paranoid
    why = f"the kernel refused perf_event_open ({outcome.error or 'kernel part'}"
    if paranoid is not None and paranoid > needed:
        why += f"; perf_event_paranoid is {paranoid}; {needed} or lower is needed, or CAP_PERFMON)"
        return why + _seccomp(settings), f"sudo sysctl kernel.perf_event_paranoid={needed}"
    if settings.container or settings.seccomp:
        fix = "docker run --cap-add PERFMON --security-opt seccomp=unconfined"
        return why + ")" + (_seccomp(settings) or f"; inside {settings.container}"), fix
    return why + "; CAP_PERFMON is needed)", "run it with sudo"


def _absent(outcome: Outcome) -> str:
    if outcome.error == "ENOSYS":
        return "the kernel has no perf events, or a filter hides them (ENOSYS)"
    return f"the kernel answered {outcome.error or 'nothing'}"


def _sampling(outcome: Outcome, host: Host) -> Check:
    if outcome.works:
        why, fix = _refused(outcome, host.settings, 1)
        return _check(outcome, _SAMPLING, why.replace("refused", "keeps its own part from"), fix)
    if outcome.error in ("EACCES", "EPERM"):
        return _check(outcome, _SAMPLING, *_refused(outcome, host.settings, 2))
    return _check(outcome, _SAMPLING, _absent(outcome), _ELSEWHERE)


def _counter(outcome: Outcome, host: Host) -> Check:
    if outcome.error in ("EACCES", "EPERM"):
        return _check(outcome, _COUNTERS, *_refused(outcome, host.settings, 2))
    if outcome.works and "nothing" not in outcome.detail:
        why, fix = _refused(outcome, host.settings, 1)
        return _check(outcome, _COUNTERS, why.replace("refused", "keeps its own part from"), fix)
    if host.machine.virtual:
        why = f"this is a virtual machine, and its host hides the counters{_errno(outcome)}"
        fix = f"take a machine type with a virtual PMU, or bare metal; meanwhile, {_ELSEWHERE}"
        return _check(outcome, _COUNTERS, why, fix)
    why = f"the kernel has no driver for this event on {host.machine.model}{_errno(outcome)}"
    return _check(outcome, _COUNTERS, why, _ELSEWHERE)


def _errno(outcome: Outcome) -> str:
    return f" ({outcome.error})" if outcome.error else ""


def _probe(outcome: Outcome, host: Host) -> Check:
    if outcome.name == "data watchpoints":
        if outcome.error in ("EACCES", "EPERM"):
            return _check(outcome, _PROBES, *_refused(outcome, host.settings, 2))
        why = f"no debug registers are left or shown{_errno(outcome)}"
        return _check(outcome, _PROBES, why, "end other debuggers, and try again")
    if "no tracefs" in outcome.detail:
        why = "the numbers of tracepoints are in tracefs"
        return _check(outcome, _PROBES, why, "sudo mount -t tracefs tracefs /sys/kernel/tracing")
    if outcome.error in ("EACCES", "EPERM"):
        return _check(outcome, _PROBES, *_probe_refused(outcome, host.settings))
    return _check(outcome, _PROBES, _absent(outcome), "take a kernel with CONFIG_UPROBE_EVENTS")


def _probe_refused(outcome: Outcome, settings: Settings) -> tuple[str, str]:
    if outcome.name == "tracepoints" and outcome.detail:
        return (
            f"{outcome.detail} ({outcome.error})",
            "sudo mount -o remount,mode=755 /sys/kernel/tracing",
        )
    if outcome.name == "tracepoints":
        return _refused(outcome, settings, -1)
    why = f"the kernel refused perf_event_open ({outcome.error}); uprobes need CAP_PERFMON"
    return why + _seccomp(settings), "run it with sudo"


# Pages


def _page(outcome: Outcome, host: Host) -> Check:
    settings = host.settings
    if outcome.name == "userfaultfd":
        allowed = settings.unprivileged_userfaultfd
        why = f"vm.unprivileged_userfaultfd is {allowed}; 1 is needed, or CAP_SYS_PTRACE"
        if outcome.error == "ENOSYS" or (outcome.works and "no write" in outcome.detail):
            return _check(outcome, _PAGES, "not in this kernel, or filtered" + _seccomp(settings))
        return _check(outcome, _PAGES, why, "sudo sysctl vm.unprivileged_userfaultfd=1")
    if outcome.name == "syscall user dispatch":
        return _check(outcome, _PAGES, "Linux 5.11 or newer has it", "update the kernel")
    option = {"soft-dirty pages": "MEM_SOFT_DIRTY", "idle pages": "IDLE_PAGE_TRACKING"}
    if outcome.error in ("EACCES", "EPERM"):
        return _check(outcome, _PAGES, f"it needs privileges ({outcome.error})", "run it with sudo")
    why = f"the kernel was built without CONFIG_{option[outcome.name]}"
    return _check(outcome, _PAGES, f"{why}; pages are tracked by protection instead")


# Permissions


def _permissions(settings: Settings) -> Iterator[Check]:
    yield _paranoid(settings)
    yield _kernel_names(settings)
    has = ", ".join(settings.capabilities)
    yield Check("capabilities", _PERMISSIONS, "works", has or "none (not needed to record)")
    if settings.seccomp:
        yield Check(
            "seccomp",
            _PERMISSIONS,
            "limited",
            "a filter of system calls is active",
            f"set by {settings.container or 'whatever started this shell'}",
            "docker run --security-opt seccomp=unconfined",
        )
    if settings.container:
        yield Check("container", _PERMISSIONS, "works", f"inside {settings.container}")


def _paranoid(settings: Settings) -> Check:
    value = settings.perf_event_paranoid
    name = "perf_event_paranoid"
    if value is None:
        return Check(
            name, _PERMISSIONS, "missing", "no such setting", "no perf events in this kernel"
        )
    privileged = {"CAP_PERFMON", "CAP_SYS_ADMIN"} & set(settings.capabilities)
    if value <= 1:
        return Check(name, _PERMISSIONS, "works", f"{value}: user and kernel code")
    if privileged:
        held = " and ".join(sorted(privileged))
        return Check(name, _PERMISSIONS, "works", f"{value}, and {held} to pass it")
    status: Status = "limited" if value == 2 else "missing"
    reach = "user code only" if value == 2 else "nothing without privileges"
    needed = 1 if value == 2 else 2
    why = f"it is {value}; {needed} or lower is needed for more"
    fix = f"sudo sysctl kernel.perf_event_paranoid={needed}"
    return Check(name, _PERMISSIONS, status, f"{value}: {reach}", why, fix)


def _kernel_names(settings: Settings) -> Check:
    value = settings.kptr_restrict or 0
    if value == 0 or (value == 1 and settings.user == 0):
        return Check(
            "kptr_restrict", _PERMISSIONS, "works", f"{value}: kernel symbols have addresses"
        )
    why = f"it is {value}; 0 is needed to name functions of the kernel"
    fix = "sudo sysctl kernel.kptr_restrict=0"
    return Check("kptr_restrict", _PERMISSIONS, "limited", f"{value}: hidden", why, fix)
