"""Work in the background: functions in a pool of threads, and elements prepared ahead.

A thread refers to what it works on, never to those who read its results. So when the reader is
gone its thread ends, whether it was closed, forgotten or stopped by an error.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

from tapegrad.data.choosing import inner
from tapegrad.data.constants import AUTOTUNE
from tapegrad.data.plan import END, Above, Passing, Plan, Run, Source, State, refuse_beyond
from tapegrad.data.structure import to_tensors

_AHEAD = 2
"""Elements that are prepared ahead if nobody says how many."""

_PATIENCE = 1.0
"""Seconds after which a waiting reader looks up, so that Ctrl-C works on every system."""


def workers_for(num_parallel_calls: int | None) -> int:
    """Return the number of threads for an argument; none means that no pool is wanted."""
    if num_parallel_calls == AUTOTUNE:
        return os.cpu_count() or 1
    return num_parallel_calls or 0


# A pool of threads


class _Job:
    """One element under way: the call, where the input stood before it, and if it is passed on."""

    __slots__ = ("before", "future", "is_gone")

    def __init__(self, before: State, future: Future[Any] | None) -> None:
        self.before = before
        self.future = future
        self.is_gone = future is None


class Applied(Above):
    """Calls a function on elements when they are asked for; the state is that of `Parallel`."""

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
    """Calls a function on elements in a pool; results come in order, or as they are ready.

    `opened` opens the input. The state says where the oldest job began, and which of the jobs
    after it have been passed on already.
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
        except Exception as error:  # raised again when it is this element's turn
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


# Elements ahead


class Prefetch(Passing):
    """Lets a thread prepare elements ahead, and begin their copy to the device.

    On CUDA the copies take their turn on the default stream, which is the thread's. Who reads on
    a stream of their own that does not wait for the default one has to see to that.
    """

    step = "prefetch"

    def __init__(self, plan: Plan, buffer_size: int) -> None:
        super().__init__(plan)
        self._buffer_size = _AHEAD if buffer_size == AUTOTUNE else buffer_size

    def open(self, run: Run, state: State | None) -> Source:
        source = self._input.start(run, inner(state))
        if run.peeks or not self._buffer_size or source.is_gathered():
            # A thread that only asks the device to gather would take the time it is to save.
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
                # The error refers to this frame: the cycle would keep the thread alive.
                del error, ready
        self._ended = element is END
        return element

    def state(self) -> State:
        return {"step": "prefetch", "input": self._state}

    def close(self) -> None:
        """End the thread, and wait until it has let go of the element it is working on."""
        self._stop()
        self._ended = True
        if self._thread is not threading.current_thread():
            self._thread.join()


class _Ready(NamedTuple):
    """What the thread made, and where its source stood then."""

    state: State
    element: Any
    error: BaseException | None = None


class _Worker:
    """The thread's side: a source, and room for a few elements."""

    def __init__(self, source: Source, size: int, like: Any) -> None:
        self._source = source
        self._size = size
        self._like = like
        self._ready: deque[_Ready] = deque()
        self._change = threading.Condition()
        self._stopped = False

    def work(self) -> None:
        """Prepare elements until there are no more, or nobody wants them."""
        try:
            while self._has_room():
                ready = self._prepared()
                with self._change:
                    self._ready.append(ready)
                    self._change.notify_all()
                if ready.element is END:
                    break
                del ready  # else the last element would live until there is room for another
        finally:
            self._source.close()

    def _has_room(self) -> bool:
        with self._change:
            while len(self._ready) >= self._size and not self._stopped:
                self._change.wait()
            return not self._stopped

    def _prepared(self) -> _Ready:
        try:
            element = self._source.next()
            if element is not END and self._like is not None:
                element = to_tensors(element, self._like)
            return _Ready(self._source.state(), element)
        except BaseException as error:  # raised again where the element is asked for
            return _Ready(self._source.state(), None, error)

    def take(self) -> _Ready | None:
        """Wait for the next element; None if the thread was stopped."""
        with self._change:
            while not self._ready:
                if self._stopped:
                    return None
                self._change.wait(_PATIENCE)
            self._change.notify_all()
            return self._ready.popleft()

    def stop(self) -> None:
        """Let the thread end, and forget what it has prepared."""
        with self._change:
            self._stopped = True
            self._ready.clear()
            self._change.notify_all()
