#include "program.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>

namespace dayzero {

AlignedBytes::~AlignedBytes() { std::free(data_); }

void AlignedBytes::reserve(int64_t bytes) {
    if (bytes <= size_) return;
    std::free(data_);
    data_ = nullptr;
    size_ = 0;
    const size_t rounded = (static_cast<size_t>(bytes) + 63) / 64 * 64;
    data_ = static_cast<uint8_t*>(std::aligned_alloc(64, rounded));
    if (!data_) throw std::bad_alloc();
    std::memset(data_, 0, rounded);
    size_ = bytes;
}

int Program::add_buffer(int width) {
    buffers_.push_back(std::make_unique<Buffer>(width));
    rows_ = 0;
    return static_cast<int>(buffers_.size()) - 1;
}

void Program::read(const int32_t* flat, int64_t length) {
    try {
        step_.read(flat, length);
    } catch (...) {
        step_ = Step{};  // half of a step that was refused is none
        throw;
    }
    const int64_t rows = std::max<int64_t>(step_.num_tokens, static_cast<int64_t>(step_.sample_at.size()));
    if (rows > rows_) {
        rows_ = 0;  // until all of them have it
        for (auto& buffer : buffers_) buffer->bytes.reserve(rows * buffer->width * 4);
        rows_ = rows;
    }
}

namespace {

int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

}  // namespace

void Program::run() { start(0, num_ops(), nullptr); }

void Program::run_op(int index) {
    if (index < 0 || index >= num_ops()) throw std::out_of_range("no such op");
    start(index, index + 1, nullptr);
}

std::vector<int64_t> Program::run_timed() {
    std::vector<int64_t> ends_ns(ops_.size());
    int64_t before = now_ns();
    start(0, num_ops(), ends_ns.data());
    for (int64_t& at : ends_ns) {
        const int64_t end = at;
        at -= before;
        before = end;
    }
    return ends_ns;
}

void Program::start(int first, int stop, int64_t* ends_ns) {
    for (int i = first; i < stop; ++i) {
        ops_[i]->next.store(0, std::memory_order_relaxed);
        ops_[i]->prepare(step_);
        for (auto& scratch : scratch_) scratch.reserve(ops_[i]->scratch_bytes(step_));
    }
    pool_.run([this, first, stop, ends_ns](int thread) {
        const Worker worker{thread, pool_, scratch_[thread].data()};
        for (int i = first; i < stop; ++i) {
            ops_[i]->run(step_, worker);
            if (i + 1 < stop || ends_ns) pool_.barrier();
            if (ends_ns && thread == 0) ends_ns[i] = now_ns();
        }
    });
}

}  // namespace dayzero
