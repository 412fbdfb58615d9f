#include "program.hpp"

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
    step_.read(flat, length);
    const int64_t rows = std::max<int64_t>(step_.num_tokens, static_cast<int64_t>(step_.sample_at.size()));
    if (rows > rows_) {
        for (auto& buffer : buffers_) buffer->bytes.reserve(rows * buffer->width * 4);
        rows_ = rows;
    }
}

void Program::run() { start(0, num_ops()); }

void Program::run_op(int index) {
    if (index < 0 || index >= num_ops()) throw std::out_of_range("no such op");
    start(index, index + 1);
}

void Program::start(int first, int stop) {
    for (int i = first; i < stop; ++i) {
        ops_[i]->next.store(0, std::memory_order_relaxed);
        ops_[i]->prepare(step_);
    }
    pool_.run([this, first, stop](int thread) {
        const Worker worker{thread, pool_, scratch_[thread]};
        for (int i = first; i < stop; ++i) {
            ops_[i]->run(step_, worker);
            if (i + 1 < stop) pool_.barrier();
        }
    });
}

}  // namespace dayzero
