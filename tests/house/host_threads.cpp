// The threads of a block, one after the other: each has a context and a stack.
#include <cstdio>
#include <cstdlib>
#include <ucontext.h>
#include <vector>

struct Place { unsigned int x; };
struct Thread { ucontext_t context; std::vector<char> stack; bool is_done; int arrivals; };
static std::vector<Thread> threads;
static ucontext_t caller;
static void (*the_body)();
static Place* current;

static void enter() { the_body(); threads[current->x].is_done = true; }

extern "C" int host_arrivals(unsigned int thread) { return threads[thread].arrivals; }

extern "C" void host_pass_on(Place* own) {
    const Place kept = *own;
    ++threads[kept.x].arrivals;
    swapcontext(&threads[kept.x].context, &caller);
    *own = kept;
}

extern "C" void host_run_block(void (*body)(), Place* place, int count, int backwards) {
    the_body = body;
    current = place;
    threads.resize(count);
    for (Thread& one : threads) {
        one.stack.resize(1 << 16);
        getcontext(&one.context);
        one.context.uc_stack.ss_sp = one.stack.data();
        one.context.uc_stack.ss_size = one.stack.size();
        one.context.uc_link = &caller;
        one.is_done = false;
        one.arrivals = 0;
        makecontext(&one.context, enter, 0);
    }
    for (bool is_done = false; !is_done;) {
        is_done = true;
        for (int t = 0; t < count; ++t) {
            place->x = backwards ? count - 1 - t : t;
            Thread& one = threads[place->x];
            if (!one.is_done) swapcontext(&caller, &one.context);
            is_done = is_done && one.is_done;
        }
        for (Thread& one : threads) {
            if (one.arrivals == threads[0].arrivals && one.is_done == threads[0].is_done) continue;
            fprintf(stderr, "The threads of a block reach different barriers.\n");
            abort();
        }
    }
}
