"""Background work: functions in a thread pool, and prefetching.

A thread refers to its input, never to the reader of its results. So a thread ends when its reader
is closed, deleted or stopped by an error.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

from tapegrad.data.constants import AUTOTUNE
from tapegrad.data.plan import END, Above, Passing, Plan, Run, Source, State, refuse_beyond
from tapegrad.data.selection import inner
from tapegrad.data.structure import to_tensors

_AHEAD = 2
"""Number of elements to prefetch by default."""

_PATIENCE = 1.0
"""Timeout in seconds after which a waiting reader wakes up, so that Ctrl-C works everywhere."""


def workers_for(num_parallel_calls: int | None) -> int:
    """Return the number of threads for `num_parallel_calls`; 0 means no pool."""
    if num_parallel_calls == AUTOTUNE:
        return os.cpu_count() or 1
    return num_parallel_calls or 0


# Thread pool


class _Job:
    """A call in progress: its future, the state of the input before it, and whether it is done."""

    __slots__ = ("before", "future", "is_gone")

    def __init__(self, before: State, future: Future[Any] | None) -> None:
        self.before = before
        self.future = future
        self.is_gone = future is None


class Applied(Above):
    """Calls a function on elements one by one; its state is compatible with `Parallel`."""

    def __init__(self, step: str, source: Source, call: Callable[[Any], Any]) -> None:
        super().__init__(source)
        self._step = step
        self._call = call

    def next(self) -> Any:
        element = self._source.next()
        return END if element is END else self._call(element)

    def state(self) -> State:
        return {**super().state(), "gone": []}


class Parallel(Source):
    """Calls a function on elements in a thread pool; results come in order, or when ready.

    `opened` opens the input. The state holds the position of the oldest job, and which of the
    later jobs have already been passed on.
    """

    def __init__(
        self,
        step: str,
        opened: Callable[[State | None], Source],
        call: Callable[[Any], Any],
        workers: int,
        in_order: bool,
        state: State | None,
    ) -> None:
        self._step = step
        self._source = opened(inner(state))
        self._call = call
        self._in_order = in_order
        self._jobs: deque[_Job] = deque()
        self._most = 2 * workers
        self._ended = False
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix=f"tapegrad-{step}")
        self._end_pool = weakref.finalize(self, _shut_down, self._pool)
        for place in range(max(state["gone"], default=-1) + 1 if state else 0):
            assert state is not None
            self._begin(is_gone=place in state["gone"])
            if self._ended:
                refuse_beyond(step)

    def _begin(self, is_gone: bool = False) -> None:
        before = self._source.state()
        try:
            element = self._source.next()
        except Exception as error:  # raised again when this element is due
            failed: Future[Any] = Future()
            failed.set_exception(error)
            self._jobs.append(_Job(before, failed))
            return
        if element is END:
            self._ended = True
        else:
            future = None if is_gone else self._pool.submit(self._call, element)
            self._jobs.append(_Job(before, future))

    def next(self) -> Any:
        while self._jobs and self._jobs[0].is_gone:
            self._jobs.popleft()
        while not self._ended and len(self._jobs) < self._most:
            self._begin()
        job = self._next_job()
        if job is None:
            return END
        assert job.future is not None
        job.is_gone = True
        try:
            return job.future.result()
        finally:
            job.future = None
            while self._jobs and self._jobs[0].is_gone:
                self._jobs.popleft()

    def _next_job(self) -> _Job | None:
        waiting = [job for job in self._jobs if not job.is_gone]
        if not waiting or self._in_order:
            return waiting[0] if waiting else None
        futures = {job.future for job in waiting if job.future is not None}
        done = wait(futures, return_when=FIRST_COMPLETED).done
        return next(job for job in waiting if job.future in done)

    def state(self) -> State:
        before = self._jobs[0].before if self._jobs else self._source.state()
        gone = [place for place, job in enumerate(self._jobs) if job.is_gone]
        return {"step": self._step, "input": before, "gone": gone}

    def close(self) -> None:
        self._end_pool()
        self._source.close()


def _shut_down(pool: ThreadPoolExecutor) -> None:
    pool.shutdown(wait=False, cancel_futures=True)


# Prefetching


class Prefetch(Passing):
    """Prepares elements in a thread, and begins their copy to the device.

    On CUDA the copies run on the default stream of the thread. A reader on another stream that
    does not wait for the default stream must synchronize itself.
    """

    step = "prefetch"

    def __init__(self, plan: Plan, buffer_size: int) -> None:
        super().__init__(plan)
        self._buffer_size = _AHEAD if buffer_size == AUTOTUNE else buffer_size

    def open(self, run: Run, state: State | None) -> Source:
        source = self._input.start(run, inner(state))
        if run.peeks or not self._buffer_size or source.is_gathered():
            # Gathering on the device is cheap for the host; a thread would cost more than it saves.
            return _Passed(source)
        return _Prefetched(source, self._buffer_size, run.like)


class _Passed(Above):
    """A source behind a step that does nothing."""

    _step = "prefetch"

    def next(self) -> Any:
        return self._source.next()


class _Prefetched(Source):
    def __init__(self, source: Source, size: int, like: Any) -> None:
        self._state = source.state()
        self._ended = False
        self._worker = _Worker(source, size, like)
        self._stop = weakref.finalize(self, self._worker.stop)
        self._thread = threading.Thread(
            target=self._worker.work, name="tapegrad-prefetch", daemon=True
        )
        self._thread.start()

    def next(self) -> Any:
        if self._ended:
            return END
        ready = self._worker.take()
        if ready is None:
            return END
        self._state, element, error = ready
        if error is not None:
            try:
                raise error
            finally:
                # The error refers to this frame: the reference cycle would keep the thread alive.
                del error, ready
        self._ended = element is END
        return element

    def state(self) -> State:
        return {"step": "prefetch", "input": self._state}

    def close(self) -> None:
        """Stop the thread, and wait until it has released its current element."""
        self._stop()
        self._ended = True
        if self._thread is not threading.current_thread():
            self._thread.join()


class _Ready(NamedTuple):
    """A prepared element, and the state of the source after it."""

    state: State
    element: Any
    error: BaseException | None = None


class _Worker:
    """The part of a prefetch that runs in the thread: a source and a queue of few elements."""

    def __init__(self, source: Source, size: int, like: Any) -> None:
        self._source = source
        self._size = size
        self._like = like
        self._ready: deque[_Ready] = deque()
        self._change = threading.Condition()
        self._stopped = False

    def work(self) -> None:
        """Prepare elements until the source ends or the reader is gone."""
        try:
            while self._has_room():
                ready = self._prepared()
                with self._change:
                    self._ready.append(ready)
                    self._change.notify_all()
                if ready.element is END:
                    break
                del ready  # otherwise the last element would live until there is room for another
        finally:
            self._source.close()

    def _has_room(self) -> bool:
        with self._change:
            # After a pause, half of the room is used at once: waking a thread takes time.
            if len(self._ready) >= self._size:
                while len(self._ready) > self._size // 2 and not self._stopped:
                    self._change.wait()
            return not self._stopped

    def _prepared(self) -> _Ready:
        try:
            element = self._source.next()
            if element is not END and self._like is not None:
                element = to_tensors(element, self._like)
            return _Ready(self._source.state(), element)
        except BaseException as error:  # raised again in the reader
            return _Ready(self._source.state(), None, error)

    def take(self) -> _Ready | None:
        """Wait for the next element; return None if the thread was stopped."""
        with self._change:
            while not self._ready:
                if self._stopped:
                    return None
                self._change.wait(_PATIENCE)
            ready = self._ready.popleft()
            if len(self._ready) <= self._size // 2:
                self._change.notify_all()
            return ready

    def stop(self) -> None:
        """Let the thread end, and drop the prepared elements."""
        with self._change:
            self._stopped = True
            self._ready.clear()
            self._change.notify_all()
