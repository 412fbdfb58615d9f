// What one step computes: T tokens of R requests, as the scheduler cut them.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

namespace dayzero {

// The block tables of one cache group: request r reads tables[r * stride + block].
struct BlockTables {
    const int32_t* tables = nullptr;
    int stride = 0;
    int block_size = 0;
    int largest = 0;  // block in the tables

    // The place of a token's K and V in the pool.
    int64_t slot(int request, int position) const {
        const int block = tables[static_cast<int64_t>(request) * stride + position / block_size];
        return static_cast<int64_t>(block) * block_size + position % block_size;
    }
};

struct Step {
    int num_tokens = 0;
    int num_requests = 0;
    std::span<const int32_t> tokens;           // [T]
    std::span<const int32_t> sample_at;        // [N] rows whose hidden state is wanted
    std::span<const int32_t> query_starts;     // [R + 1] request r owns rows [query_starts[r], query_starts[r + 1])
    std::span<const int32_t> first_positions;  // [R] position of each request's first row
    std::vector<BlockTables> groups;           // one for each cache group
    std::vector<int32_t> positions;            // [T] place of each token in its request
    std::vector<int32_t> requests;             // [T] owner of each token

    // Reads the flat form that Python hands over, and checks that it is as long as it says:
    // T, N, R, block_size, number of groups, then stride of each group, tokens, sample_at, query_starts,
    // first_positions, and each group's tables [R, stride].
    void read(const int32_t* flat, int64_t length);
};

}  // namespace dayzero
