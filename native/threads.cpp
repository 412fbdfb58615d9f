#include "threads.hpp"

#include <chrono>
#include <stdexcept>

namespace dayzero {

namespace {

constexpr int kPausesPerLook = 64;  // between two looks at the clock
constexpr int kPausesPerYield = 64;  // a barrier that takes longer may wait for a thread that has no core

}  // namespace

ThreadPool::ThreadPool(int num_threads, int spin_us) : num_threads_(num_threads), spin_us_(spin_us) {
    if (num_threads < 1) throw std::invalid_argument("a pool has a thread");
    for (int thread = 1; thread < num_threads; ++thread) threads_.emplace_back([this, thread] { serve(thread); });
}

ThreadPool::~ThreadPool() {
    stopping_.store(true);
    generation_.fetch_add(1);
    generation_.notify_all();
    for (auto& thread : threads_) thread.join();
}

void ThreadPool::run(const std::function<void(int)>& work) {
    if (num_threads_ == 1) return work(0);
    work_ = &work;
    generation_.fetch_add(1);  // sequentially consistent, as `sleeping_` is: one of the two sides sees the other
    if (sleeping_.load() > 0) generation_.notify_all();
    work(0);
    barrier();
}

void ThreadPool::barrier() {
    if (num_threads_ == 1) return;
    const uint32_t phase = phase_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == num_threads_ - 1) {
        arrived_.store(0, std::memory_order_relaxed);
        phase_.store(phase + 1, std::memory_order_release);
        return;
    }
    for (int pauses = 1; phase_.load(std::memory_order_acquire) == phase; ++pauses) {
        pause_cpu();
        if (pauses % kPausesPerYield == 0) std::this_thread::yield();
    }
}

void ThreadPool::serve(int thread) {
    uint32_t seen = 0;
    while (true) {
        const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(spin_us_);
        while (generation_.load(std::memory_order_acquire) == seen) {
            for (int i = 0; i < kPausesPerLook; ++i) pause_cpu();
            if (std::chrono::steady_clock::now() < until) continue;
            sleeping_.fetch_add(1);
            generation_.wait(seen);
            sleeping_.fetch_sub(1);
        }
        ++seen;
        if (stopping_.load()) return;
        (*work_)(thread);
        barrier();
    }
}

}  // namespace dayzero
