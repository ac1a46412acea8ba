# SPDX-License-Identifier: Apache-2.0
"""A local worker of a sweep: tasks as JSON lines on standard input, answers on standard output.

It ends when its input does, also in the middle of a task, so that it never outlives the sweep.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading

import msgspec

from stallscope.scale.cells import Done, Failure, Task, compute
from stallscope.scale.fleet_rows import IngestDone, IngestTask, compute_ingest
from stallscope.scale.piece_task import CorePieceTask, PagePieceTask, PieceDone, compute_piece
from stallscope.scale.shard_task import ShardDone, ShardTask, compute_shard


def _read(tasks: queue.Queue[bytes]) -> None:
    for line in sys.stdin.buffer:
        tasks.put(line)
    os._exit(0)


def answer(line: bytes) -> bytes:
    task = msgspec.json.decode(
        line, type=Task | ShardTask | IngestTask | CorePieceTask | PagePieceTask
    )
    done: Done | ShardDone | IngestDone | PieceDone
    try:
        if isinstance(task, Task):
            done = compute(task)
        elif isinstance(task, ShardTask):
            done = compute_shard(task)
        elif isinstance(task, IngestTask):
            done = compute_ingest(task)
        else:
            done = compute_piece(task)
    except Exception as error:  # a fault of ours: the other cells go on
        done = Done(task.number, failure=Failure(f"stallscope itself failed: {error!r}"))
    return msgspec.json.encode(done) + b"\n"


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the sweep decides
    tasks: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_read, args=(tasks,), daemon=True).start()
    while True:
        text = answer(tasks.get())
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
