// The ops of a program. Buffers are numbers of the program's; tables, norms and KV pools are memory of the caller's,
// which outlives the program.
#pragma once

#include "attention.hpp"
#include "linear.hpp"
#include "program.hpp"

namespace dayzero {

void add_embedding(Program&, int out, const uint16_t* table, int64_t num_rows, float scale);
void add_add_rms_norm(Program&, int x, int y, const float* weight, float eps, int sum, int out, Rows rows);
void add_rms_norm(Program&, int x, const float* weight, float eps, int out, Rows rows);
void add_add(Program&, int x, int y, int out);
void add_take_samples(Program&, int x, int out);
// Writes features [first, first + N) of `out`; bias is that of all of out's features.
void add_linear(Program&, int x, const Weight& weight, const float* bias, int out, int first, Rows rows);
void add_gated(Program&, int gate_up, int out, bool gelu);

struct HeadNorms {
    const float* q = nullptr;  // [D], or null
    const float* k = nullptr;
    float eps = 0.0f;
};

// The KV of a layer and the cache group whose tables name its blocks.
struct KVPool {
    uint8_t* blocks;
    int num_blocks;
    KVShape shape;
    int group;

    uint8_t* block(int64_t number) const { return blocks + number * shape.block(); }
};

// Norms and rotates Q and K of every token, stores K and V, leaves Q in place. cos, signed_sin: [positions, D].
void add_rope_and_write_kv(Program&, int qkv, const HeadNorms& norms, const float* cos, const float* signed_sin,
                           int num_positions, int num_heads, const KVPool& pool);
// biases: [blocks][G][S], a bias for each key of the pool; or null.
void add_attention(Program&, int qkv, int out, float scale, int window, int num_heads, const KVPool& pool,
                   const float* biases);

}  // namespace dayzero
