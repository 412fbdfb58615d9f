// Attention of a tile of query rows over one request's KV, and how a block of the pool is laid out.
//
// The rule: a row at position p sees the keys of its request at positions [max(0, p - window + 1), p], in tiles of 64 at
// multiples of 64. Tile by tile, in ascending order, the scores of all its keys become weights exp(score - the largest
// so far), what was summed before is scaled down if a larger one came, and values are added in ascending order of keys.
// Nothing else has a say: neither the rows beside it, nor the chunk it came in, nor a key that it does not see. Rows
// that are computed together may add values of unseen keys at the weight 0, which changes nothing unless such a value
// is not finite; a line that comes out so is computed again by itself.
//
// A block holds S tokens of G heads (S a multiple of 16). First K, for each head and 16 tokens as pairs of features
// [D / 2][16 tokens][2], which is the layout of a weight panel: scores of 16 keys come out of one register. Then V, for
// each head token by token [S][D].
#pragma once

#include <cstdint>

#include "step.hpp"

namespace dayzero {

constexpr int kKeyTile = 64;  // keys that are scored together; tiles lie at multiples of it, whatever a step holds

struct KVShape {
    int block_size, num_kv_heads, head_dim;

    int64_t block_elements() const { return 2LL * block_size * num_kv_heads * head_dim; }
    // K of 16 tokens of a head within a block.
    int64_t key_tile(int head, int offset) const {
        return (static_cast<int64_t>(head) * block_size + offset) * head_dim;
    }
    int64_t value(int head, int offset) const {
        return (static_cast<int64_t>(num_kv_heads + head) * block_size + offset) * head_dim;
    }
};

// Rows [first_row, first_row + num_rows) of a request that attend to one KV head; each row is `queries_per_kv` heads.
struct Attend {
    const float* q;  // head `kv_head * queries_per_kv` of the first row
    int64_t q_stride;  // floats between rows
    float* out;
    int64_t out_stride;
    int num_rows;
    int first_position;
    int queries_per_kv;
    float scale;
    int window;  // keys a row sees, its own included; 0: all
    const uint16_t* pool;
    const int32_t* table;  // blocks of the request
    KVShape shape;
    int kv_head;
    uint8_t* scratch;  // attend_scratch_bytes
};

inline int64_t attend_scratch_bytes(int rows, int queries_per_kv, int head_dim) {
    const int64_t lines = static_cast<int64_t>(rows) * queries_per_kv;
    return lines * (head_dim * (2 + 4) + 8);  // q as bfloat16, the running sums, maxima and totals
}

}  // namespace dayzero
