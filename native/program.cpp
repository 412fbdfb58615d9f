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

void AlignedBytes::poison() const {
    if (size_) std::memset(data_, 0xff, static_cast<size_t>(size_));
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
    if (poisoned_) {
        for (auto& buffer : buffers_) buffer->bytes.poison();
    }
}

void Program::feed(int buffer, const float* from, int rows) {
    if (rows < 0) throw std::invalid_argument("a step has rows");
    fed_.assign(static_cast<size_t>(rows) + 8, 0);
    fed_[0] = rows;
    fed_[2] = fed_[3] = 1;                     // request, and token in a block
    fed_[static_cast<size_t>(rows) + 6] = rows;  // where the request's rows end
    read(fed_.data(), static_cast<int64_t>(fed_.size()));
    const Buffer& to = this->buffer(buffer);
    if (rows > 0) std::memcpy(to.row(0), from, static_cast<size_t>(rows) * to.width * 4);
}

std::vector<int32_t> Program::rows_not_finite(int buffer) {
    constexpr uint32_t kExponent = 0x7f800000;
    const Buffer& x = this->buffer(buffer);
    std::vector<int32_t> found;
    for (int r = 0; r < step_.num_tokens; ++r) {
        uint32_t spoilt = 0;
        for (int i = 0; i < x.width; ++i) {
            uint32_t bits;
            std::memcpy(&bits, x.row(r) + i, 4);
            spoilt |= (bits & kExponent) == kExponent;
        }
        if (spoilt) found.push_back(r);
    }
    return found;
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
        if (poisoned_) ops_[i]->poison();
    }
    pool_.run([this, first, stop, ends_ns](int thread) {
        const Worker worker{thread, pool_, scratch_[thread].data()};
        for (int i = first; i < stop; ++i) {
            if (poisoned_) scratch_[thread].poison();
            ops_[i]->run(step_, worker);
            if (i + 1 < stop || ends_ns) pool_.barrier();
            if (ends_ns && thread == 0) ends_ns[i] = now_ns();
        }
    });
}

}  // namespace dayzero
