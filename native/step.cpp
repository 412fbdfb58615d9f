#include "step.hpp"

#include <algorithm>
#include <limits>

namespace dayzero {

namespace {

class Reader {
  public:
    Reader(const int32_t* at, int64_t length) : at_(at), left_(length) {}

    std::span<const int32_t> take(int64_t count) {
        if (count < 0 || count > left_) throw std::invalid_argument("a step is shorter than it says");
        const std::span<const int32_t> taken(at_, static_cast<size_t>(count));
        at_ += count;
        left_ -= count;
        return taken;
    }

    int64_t left() const { return left_; }

  private:
    const int32_t* at_;
    int64_t left_;
};

}  // namespace

void Step::read(const int32_t* flat, int64_t length) {
    Reader reader(flat, length);
    const auto head = reader.take(5);
    num_tokens = head[0];
    num_requests = head[2];
    const int num_samples = head[1], block_size = head[3];
    if (num_requests < 0 || block_size < 1) throw std::invalid_argument("a step has requests, and blocks a size");
    const auto strides = reader.take(head[4]);
    tokens = reader.take(num_tokens);
    sample_at = reader.take(num_samples);
    query_starts = reader.take(num_requests + 1LL);
    first_positions = reader.take(num_requests);
    groups.clear();
    for (const int stride : strides) {
        const auto tables = reader.take(static_cast<int64_t>(num_requests) * stride);
        int largest = 0;
        for (const int block : tables) {
            if (block < 0) throw std::invalid_argument("a block table holds what is no block");
            largest = std::max(largest, block);
        }
        groups.push_back({tables.data(), stride, block_size, largest});
    }
    if (reader.left() != 0) throw std::invalid_argument("a step is longer than it says");
    positions.resize(static_cast<size_t>(num_tokens));
    requests.resize(static_cast<size_t>(num_tokens));
    if (query_starts.front() != 0 || query_starts.back() != num_tokens) {
        throw std::invalid_argument("a step's requests do not own its rows");
    }
    for (int r = 0; r < num_requests; ++r) {
        const int start = query_starts[r], stop = query_starts[r + 1], first = first_positions[r];
        if (stop < start || stop > num_tokens || first < 0) throw std::invalid_argument("a step's rows are out of order");
        const int64_t last = static_cast<int64_t>(first) + stop - start - 1;
        if (last > std::numeric_limits<int>::max()) throw std::invalid_argument("a position is beyond any context");
        for (const int stride : strides) {
            if (stop > start && last / block_size >= stride) {
                throw std::invalid_argument("a block table is shorter than its request");
            }
        }
        for (int row = start; row < stop; ++row) {
            positions[row] = first + (row - start);
            requests[row] = r;
        }
    }
    for (const int row : sample_at) {
        if (row < 0 || row >= num_tokens) throw std::invalid_argument("a sampled row is not among the step's");
    }
}

}  // namespace dayzero
