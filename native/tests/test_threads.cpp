// The pool: every thread works once a run and meets the others at every barrier, whether it spun or slept before.

#include <chrono>
#include <thread>

#include "check.hpp"
#include "threads.hpp"

namespace dayzero::tests {

namespace {

// Plain memory that threads hand to each other: without the barriers' order these are races.
void pass_round(ThreadPool& pool, int phases) {
    const int size = pool.size();
    std::vector<int> held(static_cast<size_t>(size)), seen(static_cast<size_t>(size));
    pool.run([&](int thread) {
        for (int phase = 1; phase <= phases; ++phase) {
            held[static_cast<size_t>(thread)] = phase * 100 + thread;
            pool.barrier();
            const int next = (thread + 1) % size;
            if (held[static_cast<size_t>(next)] == phase * 100 + next) ++seen[static_cast<size_t>(thread)];
            pool.barrier();
        }
    });
    for (const int count : seen) CHECK(count == phases);
}

}  // namespace

void test_threads(int rounds) {
    Random random(1);
    for (int size = 1; size <= 4; ++size) {
        for (const int spin_us : {0, 20}) {
            ThreadPool pool(size, spin_us);
            CHECK(pool.size() == size);
            for (int round = 0; round < rounds; ++round) {
                pass_round(pool, random.between(0, 5));
                if (round % 8 == 0) {  // long enough to park
                    std::this_thread::sleep_for(std::chrono::microseconds(random.between(0, 200)));
                }
            }
        }
    }
    for (int round = 0; round < rounds; ++round) ThreadPool unused(random.between(1, 4), random.between(0, 20));
    for (const int size : {0, -1}) {
        bool refused = false;
        try {
            ThreadPool none(size, 0);
        } catch (const std::invalid_argument&) {
            refused = true;
        }
        CHECK(refused);
    }
}

}  // namespace dayzero::tests
