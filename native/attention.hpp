// Attention of a tile of query rows over one request's KV, and how a block of the pool is laid out.
//
// The rule: a row at place p (step.hpp) sees the keys of its request at places [max(0, p - window + 1), p]. They are cut
// into parts of 512 and those into tiles of 64, at multiples of 512 and 64. Within a part, tile by tile in ascending order,
// scores, scaled and with their biases, become weights exp(score - the largest so far), what was summed before is scaled
// down if a larger one came, and values are added in ascending order of places. The sums of parts are folded in ascending
// order. A key with a bias of -inf is as good as none, if its value is finite.
// Nothing else has a say: neither the rows beside it, nor the chunk it came in, nor a key that it does not see, nor who
// computed which part. Rows that are computed together may add values of unseen keys at the weight 0, which changes
// nothing unless such a value is not finite; a line that comes out so is computed again by itself.
//
// A block holds S tokens of G heads (S a multiple of 16). First K, for each head and 16 tokens as pairs of features
// [D / 2][16 tokens][2], which is the layout of a weight panel: scores of 16 keys come out of one register. Then V, for
// each head token by token [S][D]. Both are bfloat16, or int8 codes: then a float32 scale follows for each head and token
// of K [G][S] and of V [G][S], and x = scale * code. The scale is the largest size among the head's numbers over 127, NaN
// if one of them is not finite, and codes are rounded to nearest. A code is bfloat16 as it is, so scores and sums are
// those of codes; a key's scale multiplies its score, and a value's scale its weight.
#pragma once

#include <algorithm>
#include <cstdint>

#include "step.hpp"

namespace dayzero {

constexpr int kKeyTile = 64;  // keys that are scored together; tiles lie at multiples of it, whatever a step holds
constexpr int kKeyPart = 512;  // keys whose sums begin anew, likewise: threads may share what a row sees

enum class KVFormat { kBf16, kInt8 };

struct KVShape {
    int block_size, num_kv_heads, head_dim;
    KVFormat format = KVFormat::kBf16;

    // Bytes, and places within a block.
    int64_t element() const { return format == KVFormat::kInt8 ? 1 : 2; }
    int64_t block() const { return value_scale(num_kv_heads, 0); }
    int64_t key_tile(int head, int offset) const { return (slot(head) + offset) * head_dim * element(); }  // of 16 tokens
    int64_t value(int head, int offset) const { return key_tile(num_kv_heads + head, offset); }
    int64_t key_scale(int head, int offset) const {
        return value(num_kv_heads, 0) + (format == KVFormat::kInt8 ? (slot(head) + offset) * 4 : 0);
    }
    int64_t value_scale(int head, int offset) const { return key_scale(num_kv_heads + head, offset); }

  private:
    int64_t slot(int head) const { return static_cast<int64_t>(head) * block_size; }
};

// Up to 64 keys of a request at places from `first` on, none after `last`, and their values.
struct NextKeys {
    const int32_t* table = nullptr;  // null: none
    int kv_head = 0, first = 0, last = 0;
};

// Consecutive rows of a request that attend to one KV head; each row is `queries_per_kv` lines, one for each query head.
struct Attend {
    const float* q;  // the first line of the first row
    int64_t q_stride;  // floats between rows
    float* out;
    int64_t out_stride;
    int num_rows;
    const int32_t* positions;  // of the rows
    int dropped;
    int queries_per_kv;
    float scale;
    int window;  // keys a row sees, its own included; 0: all
    const uint8_t* pool;
    const int32_t* table;  // blocks of the request
    KVShape shape;
    int kv_head;
    const float* biases;  // of the pool [blocks][G][S], read for the first num_biased keys
    int num_biased;
    const uint64_t* trees;  // masks of the rows, or null; their forest begins at the place first_tree
    int first_tree;
    uint8_t* scratch;  // attend_scratch_bytes
    NextKeys next;     // that the caller's thread will meet after these, fetched meanwhile

    int lines() const { return num_rows * queries_per_kv; }
    int place(int row) const { return positions[row] - dropped; }
};

// The parts of keys that rows at the places [first, last] see. Functions here are static: units of instruction
// sets call them, and no copy of theirs may become that of others.
struct KeyParts {
    int first, stop;
};

static inline KeyParts key_parts(int first, int last, int window) {
    return {window ? std::max(0, first - window + 1) / kKeyPart : 0, last / kKeyPart + 1};
}

// Of the sums that lines have found in a part: values, maxima and totals.
static inline int64_t part_bytes(int lines, int head_dim) { return (lines * (head_dim * 4LL + 8) + 63) / 64 * 64; }

// The sums of all parts and of one, the queries as bfloat16, and a tile: keys, values and their scales.
static inline int64_t attend_scratch_bytes(int lines, int head_dim) {
    return 2 * part_bytes(lines, head_dim) + (lines + 2 * kKeyTile) * head_dim * 2LL + 2 * kKeyTile * 4LL;
}

}  // namespace dayzero
