"""The threads that compute large loops: they are started once and wait for work.

A loop is divided into tasks, and every thread takes the next one until none is left. So the thread
that calls a loop waits only for tasks that another one has begun. If all cores are busy, it
computes the whole loop itself, and the others find nothing to do. Tasks depend on sizes alone, so
results do not depend on the number of threads.

An idle thread polls for work for some microseconds, within which the next loop of a program usually
begins, and then sleeps. Threads block signals, so they do not affect Python's handlers. A forked
process has none and starts its own; several Python threads share them.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

import numpy as np

from tapegrad.core.threads import when_threads_change
from tapegrad.errors import ArgumentError
from tapegrad_numpy.loops.libraries import Address
from tapegrad_numpy.loops.lone_functions import lone_function

MOST_THREADS = 256
_WATCHES_FOR = 30_000
"""Nanoseconds for which a thread watches for work, or for the end of the last task."""

_TEXT = r"""
#include <pthread.h>
#include <stdint.h>
#include <time.h>
#ifndef _WIN32
#include <signal.h>
#endif
typedef void *Take(void *);
typedef struct Job {
    Take *take;
    void *given;
    int64_t open, busy; /* how many threads may still join, and how many are at work */
    struct Job *next;
} Job;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static Job *jobs;
static int64_t started, asleep, waiting, open_places;

static inline void rest(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}
static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}
/* Wait a little until a number is, or is not, 0. */
static void watch(const int64_t *number, int until) {
    const int64_t end = now() + WATCHES_FOR;
    do {
        for (int i = 0; i < 32; ++i) {
            if (!__atomic_load_n(number, __ATOMIC_ACQUIRE) == !until) return;
            rest();
        }
    } while (now() < end);
}
static Job *open_job(void) {
    Job *job = jobs;
    while (job && !job->open) job = job->next;
    return job;
}
static void *help(void *unused) {
    pthread_mutex_lock(&lock);
    for (;;) {
        Job *job = open_job();
        if (!job) {
            pthread_mutex_unlock(&lock);
            watch(&open_places, 1);
            pthread_mutex_lock(&lock);
            while (!open_job()) {
                ++asleep;
                pthread_cond_wait(&wake, &lock);
                --asleep;
            }
            continue;
        }
        --job->open;
        ++job->busy;
        __atomic_sub_fetch(&open_places, 1, __ATOMIC_RELAXED);
        pthread_mutex_unlock(&lock);
        job->take(job->given);
        pthread_mutex_lock(&lock);
        if (!__atomic_sub_fetch(&job->busy, 1, __ATOMIC_RELEASE) && waiting)
            pthread_cond_broadcast(&done);
    }
    return 0;
}
static void start(int64_t wanted) {
#ifndef _WIN32
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
#endif
    pthread_t thread;
    while (started < wanted && !pthread_create(&thread, 0, help, 0)) {
        pthread_detach(thread);
        ++started;
    }
#ifndef _WIN32
    pthread_sigmask(SIG_SETMASK, &before, 0);
#endif
}
/* Let up to so many threads, this one included, run a function until it returns. */
void run_in_threads(Take *take, void *given, int64_t threads) {
    Job job = {take, given, threads - 1, 0, 0};
    pthread_mutex_lock(&lock);
    job.next = jobs;
    jobs = &job;
    __atomic_add_fetch(&open_places, job.open, __ATOMIC_RELAXED);
    if (started < threads - 1) start(threads - 1);
    for (int64_t i = 0; i < asleep && i < threads - 1; ++i) pthread_cond_signal(&wake);
    pthread_mutex_unlock(&lock);
    take(given);
    pthread_mutex_lock(&lock);
    __atomic_sub_fetch(&open_places, job.open, __ATOMIC_RELAXED);
    Job **place = &jobs;
    while (*place != &job) place = &(*place)->next;
    *place = job.next;
    if (job.busy) {
        pthread_mutex_unlock(&lock);
        watch(&job.busy, 0);
        pthread_mutex_lock(&lock);
    }
    while (job.busy) {
        ++waiting;
        pthread_cond_wait(&done, &lock);
        --waiting;
    }
    pthread_mutex_unlock(&lock);
}
int64_t threads_started(void) { return started; }
#ifndef _WIN32
static void forget(void) {
    pthread_mutex_init(&lock, 0);
    pthread_cond_init(&wake, 0);
    pthread_cond_init(&done, 0);
    jobs = 0;
    started = asleep = waiting = open_places = 0;
}
__attribute__((constructor)) static void forget_in_children(void) {
    pthread_atfork(0, 0, forget);
}
#endif
"""

_team = np.ones(2, np.int64)
_team[1] = 0
_kept: list[Address] = []
"""The library, which is never unloaded: its threads run for as long as the process."""


def thread_count() -> int:
    """How many threads large loops use: $TAPEGRAD_THREADS, $OMP_NUM_THREADS, or the cores."""
    for name in ("TAPEGRAD_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "").split(",")[0].strip()
        if text.isdecimal():
            return max(1, min(int(text), MOST_THREADS))
        if text and name == "TAPEGRAD_THREADS":
            raise ArgumentError(f"TAPEGRAD_THREADS must be a whole number above 0. Got {text!r}.")
    available = getattr(os, "sched_getaffinity", None)
    cores = len(available(0)) if available is not None else os.cpu_count() or 1
    return min(cores, MOST_THREADS)


def team() -> int:
    """Return the address of the number of threads and of the function that runs them.

    It is a `Team` of the text in runtime.py. All loops of a process share it, so a new number
    counts for loops that exist, too.
    """
    threads = thread_count()
    if threads > 1 and not _team[1]:
        _team[1] = run_in_threads_address()
    _team[0] = threads
    return int(_team.ctypes.data)


@cache
def run_in_threads_address() -> int:
    """Return the address of `run_in_threads`, 0 if it cannot be compiled."""
    source = f"#define WATCHES_FOR {_WATCHES_FOR}\n{_TEXT}"
    address = lone_function(source, "run_in_threads")
    if address is None:
        return 0
    _kept.append(address)
    return int(address)


def current_threads() -> int:
    """Return how many threads loops use at present."""
    return int(_team[0])


def threads_started() -> int:
    """Return how many threads this process has started, for tests."""
    return int(ctypes.c_int64(_kept[0].library["threads_started"]()).value) if _kept else 0


@when_threads_change
def _changed() -> None:
    team()
