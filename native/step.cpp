#include "step.hpp"

#include <algorithm>
#include <bit>
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

    // Goes past a number if it is the next.
    bool skip(int32_t number) {
        if (left_ == 0 || *at_ != number) return false;
        take(1);
        return true;
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
        groups.push_back({tables.data(), stride, block_size, largest, {}, {}});
    }
    std::span<const int32_t> masks;
    tree_rows = {};
    const auto begins = [&](Section section) { return reader.skip(static_cast<int>(section)); };
    if (begins(Section::kDropped)) {
        for (BlockTables& group : groups) group.dropped = reader.take(num_requests);
    }
    if (begins(Section::kBiased)) {
        for (BlockTables& group : groups) group.biased = reader.take(num_requests);
    }
    if (begins(Section::kTrees)) {
        tree_rows = reader.take(num_requests);
        int64_t rows = 0;
        for (const int count : tree_rows) {
            if (count < 0 || count > kMostTreeRows) throw std::invalid_argument("a step's trees have 0 to 64 rows");
            rows += count;
        }
        masks = reader.take(2 * rows);
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
        for (const BlockTables& group : groups) {
            const int dropped = group.num_dropped(r), biased = group.num_biased(r);
            if (dropped < 0 || dropped > first) throw std::invalid_argument("a step drops keys that were never there");
            if (biased < 0 || biased > first - dropped) {
                throw std::invalid_argument("a step biases keys that are not before its rows");
            }
            if (stop > start && (last - dropped) / block_size >= group.stride) {
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
    trees.clear();
    if (!tree_rows.empty()) read_trees(masks);
}

void Step::read_trees(std::span<const int32_t> words) {
    trees.resize(static_cast<size_t>(num_tokens));
    const int32_t* word = words.data();
    for (int r = 0; r < num_requests; ++r) {
        const int stop = query_starts[r + 1], start = stop - tree_rows[r];
        if (start < query_starts[r]) throw std::invalid_argument("a step's tree has more rows than its request");
        for (int row = start; row < stop; ++row, word += 2) {
            const uint64_t mask = static_cast<uint32_t>(word[0]) | static_cast<uint64_t>(static_cast<uint32_t>(word[1])) << 32;
            const int own = row - start, parent = 63 - std::countl_zero(mask & ((1ull << own) - 1));
            const uint64_t above = parent < 0 ? 0 : trees[start + parent];
            if (mask != (above | 1ull << own)) {
                throw std::invalid_argument("a row of a step's tree sees itself, its parent and what that sees");
            }
            trees[row] = mask;
            positions[row] = positions[start] + std::popcount(mask) - 1;
        }
    }
}

}  // namespace dayzero
