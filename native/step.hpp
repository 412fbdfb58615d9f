// What one step computes: T tokens of R requests, as the scheduler cut them.
//
// A request's keys lie in its blocks one after the other, each row's in the next place. Three optional sections say that
// places, positions and what a row sees are not all the same, each of them for whoever needs it and at no cost to others:
//
// dropped  so many positions before the request's first row have no key: a cache that was compacted. Positions turn Q and
//          K; places say where keys lie, which rows see which, and what a window holds. place = position - dropped.
// biased   the first so many keys of a request have a bias each, which is added to their scaled scores. Biases lie in a
//          pool of their own beside a layer's KV (ops.hpp), as blocks do, and are shared and freed with them.
// trees    the last rows of a request, at most 64, are a forest of drafts, parents before children. Bit j of a row's mask
//          says that it sees the j-th row of the forest: its ancestors and itself. Its position is that of its depth,
//          and it sees all keys before the forest. It has the bits that it would have after its ancestors alone, each
//          at the place of its depth; only where its own key lies does its place in the step count.
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
    std::span<const int32_t> dropped;  // [R], or empty
    std::span<const int32_t> biased;   // [R], or empty

    int num_dropped(int request) const { return dropped.empty() ? 0 : dropped[request]; }
    int num_biased(int request) const { return biased.empty() ? 0 : biased[request]; }

    // Where in the pool the K and V at a place of a request lie.
    int64_t slot(int request, int place) const {
        const int block = tables[static_cast<int64_t>(request) * stride + place / block_size];
        return static_cast<int64_t>(block) * block_size + place % block_size;
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
    std::vector<int32_t> positions;            // [T] of each token in its request
    std::vector<int32_t> requests;             // [T] owner of each token
    std::span<const int32_t> tree_rows;        // [R] the last so many rows of a request are a forest; or empty
    std::vector<uint64_t> trees;               // [T] the masks of their rows, else 0; or empty

    int num_tree_rows(int request) const { return tree_rows.empty() ? 0 : tree_rows[request]; }
    // The place where a row's own key lies.
    int own_place(const BlockTables& group, int row) const {
        const int request = requests[row];
        return first_positions[request] - group.num_dropped(request) + row - query_starts[request];
    }

    // Reads the flat form that Python hands over, and checks that it is as long as it says:
    // T, N, R, block_size, number of groups, then stride of each group, tokens, sample_at, query_starts,
    // first_positions, and each group's tables [R, stride]. Then any of the sections, each behind its number, in order:
    // dropped and biased, [R] for each group; trees, tree_rows [R] and the masks of their rows, low word first.
    void read(const int32_t* flat, int64_t length);

  private:
    void read_trees(std::span<const int32_t> words);
};

enum class Section { kDropped = 1, kBiased = 2, kTrees = 3 };
constexpr int kMostTreeRows = 64;

}  // namespace dayzero
