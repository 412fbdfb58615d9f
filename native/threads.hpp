// One pool of threads for a whole program of ops: the caller is thread 0, the others wait for it.
//
// Inside a run threads meet at every op, so they spin; between runs they spin for a
// moment (the next step is usually near) and then park on a futex, because the HTTP server and its clients need the
// same cores.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace dayzero {

inline void pause_cpu() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

class ThreadPool {
  public:
    explicit ThreadPool(int num_threads, int spin_us);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int size() const { return num_threads_; }

    // Calls work(thread) once on every thread, the caller's among them, and returns when all have returned.
    void run(const std::function<void(int)>& work);

    // Every thread of a run waits here until all have come. Called equally often by all of them.
    void barrier();

  private:
    void serve(int thread);

    const int num_threads_;
    const int spin_us_;
    const std::function<void(int)>* work_ = nullptr;
    alignas(64) std::atomic<uint32_t> generation_{0};  // of the run: what parked threads wait on
    alignas(64) std::atomic<int> sleeping_{0};
    alignas(64) std::atomic<int> arrived_{0};
    alignas(64) std::atomic<uint32_t> phase_{0};
    std::atomic<bool> stopping_{false};
    std::vector<std::thread> threads_;
};

}  // namespace dayzero
