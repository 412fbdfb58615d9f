// A step recorded once: ops over buffers whose numbers of rows are only known when it runs.
//
// What CUDA graphs are on a GPU. `run` replays all ops with one pool of threads and a barrier between ops: no Python,
// no allocation. `run_op` replays one of them, which is what calling op by op would do.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "isa.hpp"
#include "step.hpp"
#include "threads.hpp"

namespace dayzero {

enum class Rows { kTokens, kSamples };  // T or N of the step

class AlignedBytes {
  public:
    uint8_t* data() const { return data_; }
    int64_t size() const { return size_; }
    void reserve(int64_t bytes);  // what was there is lost
    void poison() const;          // every byte 0xff: NaN in float32 and bfloat16, -1 in whole numbers
    AlignedBytes() = default;
    ~AlignedBytes();
    AlignedBytes(const AlignedBytes&) = delete;
    AlignedBytes& operator=(const AlignedBytes&) = delete;

  private:
    uint8_t* data_ = nullptr;
    int64_t size_ = 0;
};

// Float32 [rows, width].
struct Buffer {
    explicit Buffer(int floats) : width(floats) {}
    float* row(int64_t r) const { return reinterpret_cast<float*>(bytes.data()) + r * width; }

    const int width;
    AlignedBytes bytes;
};

struct Worker {
    int thread;
    ThreadPool& pool;
    uint8_t* scratch;  // of this thread: as many bytes as the op asked for
};

class Op {
  public:
    virtual ~Op() = default;
    virtual void run(const Step& step, const Worker& worker) = 0;
    // Called before the threads start, where memory may still run out: check the step, and grow what depends on it.
    virtual void prepare(const Step&) {}
    virtual int64_t scratch_bytes(const Step&) const { return 0; }
    // Poison what the op has of its own beside scratch; called after `prepare`.
    virtual void poison() {}

    std::atomic<int> next{0};  // item of work that nobody has taken

  protected:
    // [start, stop) of the next `count` items, empty when all are taken.
    bool take(int count, int items, int& start, int& stop) {
        start = next.fetch_add(count, std::memory_order_relaxed);
        stop = start + count < items ? start + count : items;
        return start < items;
    }
};

class Program {
  public:
    // poisoned: for tests. Buffers are poisoned when a step is read, scratch and what ops keep before each op, so that
    // what reads a value which nobody wrote since then finds NaN, where it would find what an earlier step left.
    Program(ThreadPool& pool, const Isa& isa, bool poisoned = false)
        : pool_(pool), isa_(isa), poisoned_(poisoned), scratch_(pool.size()) {}
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    int add_buffer(int width);
    Buffer& buffer(int id) { return *buffers_.at(static_cast<size_t>(id)); }
    void add(std::unique_ptr<Op> op) { ops_.push_back(std::move(op)); }
    int num_ops() const { return static_cast<int>(ops_.size()); }
    const Isa& isa() const { return isa_; }
    int num_threads() const { return pool_.size(); }

    void read(const int32_t* flat, int64_t length);  // the step that the next runs compute
    // A step of `rows` rows that are there already: those of a buffer.
    void feed(int buffer, const float* from, int rows);
    // Those of the step that hold a NaN or an infinity.
    std::vector<int32_t> rows_not_finite(int buffer);
    void run();
    void run_op(int index);
    std::vector<int64_t> run_timed();  // nanoseconds of each op, the wait for the last thread included

  private:
    void start(int first, int stop, int64_t* ends_ns);

    ThreadPool& pool_;
    const Isa& isa_;
    const bool poisoned_;
    std::vector<AlignedBytes> scratch_;
    std::vector<std::unique_ptr<Buffer>> buffers_;
    std::vector<std::unique_ptr<Op>> ops_;
    Step step_;
    std::vector<int32_t> fed_;  // its flat form
    int64_t rows_ = 0;  // that buffers have room for
};

}  // namespace dayzero
