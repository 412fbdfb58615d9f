// The inner loops, once for each instruction set; a program takes one table for all its ops.
//
// Every function computes a row (or a row of a tile) by itself: in the same order, whatever else is computed with it.
#pragma once

#include <cstdint>

namespace dayzero {

constexpr int kPanel = 32;  // output features that are packed together

// How a weight is stored, and with it how the activations that meet it are: bfloat16 or int8 by group.
enum class Format {
    kBf16,           // bfloat16
    kInt4,           // 4 bits, a float16 scale by 32, codes around 8: GGUF Q4_0
    kInt4By64,       // by 64
    kInt4By128,      // by 128
    kInt4Zero,       // 4 bits, a float16 scale and a zero by 32: AWQ, GPTQ
    kInt4ZeroBy64,   // by 64
    kInt4ZeroBy128,  // by 128
    kInt4Min,        // 4 bits, a float16 scale and minimum by 32: GGUF Q4_1
    kInt5,           // 5 bits, a float16 scale by 32, codes around 16: GGUF Q5_0
    kInt5Min,        // 5 bits, a float16 scale and minimum by 32: GGUF Q5_1
    kInt8,           // 8 bits, a float16 scale by 32, codes around 128: GGUF Q8_0
    kInt8Channel,    // 8 bits, one scale for each feature
    kQ4K,            // 4 bits, a scale and minimum by 32 in two levels: GGUF Q4_K
    kQ5K,            // 5 bits, likewise: GGUF Q5_K
    kQ6K,            // 6 bits, a scale by 16 in two levels, codes around 32: GGUF Q6_K
    kNvfp4,          // e2m1, an e4m3 scale by 16, one scale for all: exact in bfloat16
    kMxfp4,          // e2m1, a power of two (e8m0) by 32: exact in bfloat16
};
constexpr int kNumFormats = 17;

// What is taken off or added to a code of a group.
enum class Low {
    kMiddle,   // scale * (code - half of the codes)
    kZero,     // scale * (code - zero), zeros being whole numbers in float16
    kMinimum,  // scale * code + minimum
};

struct FormatLayout {
    int block;             // weights along K that lie together
    int block_bytes;       // of a panel's 32 features and one block, a multiple of 64
    int activation_group;  // 0: bfloat16
    // Of integer codes by group:
    int bits = 0;
    Low low = Low::kMiddle;
    bool two_level = false;
};

// Of 32 codes of each feature.
constexpr int code_bytes(int bits) { return 32 * kPanel * bits / 8; }

// A block of one group: its codes, 32 along K after the other; 32 scales; 32 zeros or minima. Float16 all.
constexpr FormatLayout grouped(int bits, int group, Low low) {
    return {group, group / 32 * code_bytes(bits) + (low == Low::kMiddle ? 64 : 128), 32, bits, low};
}

// A block of 256, which share a float16 scale (and minimum) that those of its groups, small integers, are times of. The
// former lie first; then 32 codes along K after the other, behind each 64 bytes of the latter: two scales by 16, or a
// scale and a minimum by 32. Activations go by the same groups.
constexpr FormatLayout two_level(int bits, int group, Low low) {
    return {256, (low == Low::kMiddle ? 64 : 128) + 256 / 32 * (code_bytes(bits) + 64), group, bits, low, true};
}

// Where, in a block, the 32 codes of each feature from k on are, and the numbers of the group that k is in.
constexpr int codes_at(const FormatLayout& at, int k) {
    if (!at.two_level) return k / 32 * code_bytes(at.bits);
    return (at.low == Low::kMiddle ? 64 : 128) + k / 32 * (code_bytes(at.bits) + 64);
}
constexpr int numbers_at(const FormatLayout& at, int k) {
    if (!at.two_level) return at.block / 32 * code_bytes(at.bits);
    return codes_at(at, k) + code_bytes(at.bits) + k % 32 / at.activation_group * kPanel;
}

// A block of two groups: their codes, 32 scales of the one, 32 of the other.
constexpr FormatLayout e2m1(int group) { return {2 * group, group * kPanel + 2 * kPanel, 0}; }

constexpr FormatLayout layout(Format format) {
    switch (format) {
        case Format::kBf16: return {32, 32 * kPanel * 2, 0};
        case Format::kInt4: return grouped(4, 32, Low::kMiddle);
        case Format::kInt4By64: return grouped(4, 64, Low::kMiddle);
        case Format::kInt4By128: return grouped(4, 128, Low::kMiddle);
        case Format::kInt4Zero: return grouped(4, 32, Low::kZero);
        case Format::kInt4ZeroBy64: return grouped(4, 64, Low::kZero);
        case Format::kInt4ZeroBy128: return grouped(4, 128, Low::kZero);
        case Format::kInt4Min: return grouped(4, 32, Low::kMinimum);
        case Format::kInt5: return grouped(5, 32, Low::kMiddle);
        case Format::kInt5Min: return grouped(5, 32, Low::kMinimum);
        case Format::kInt8: return grouped(8, 32, Low::kMiddle);
        case Format::kInt8Channel: return {64, 2048, 64};
        case Format::kQ4K: return two_level(4, 32, Low::kMinimum);
        case Format::kQ5K: return two_level(5, 32, Low::kMinimum);
        case Format::kQ6K: return two_level(6, 16, Low::kMiddle);
        case Format::kNvfp4: return e2m1(16);
        case Format::kMxfp4: return e2m1(32);
    }
    return {};
}

// Bytes of a packed row of activations: bfloat16, or int8 and after it a float32 scale and an int32 sum by group.
constexpr int64_t packed_row_bytes(Format format, int padded_inner) {
    const int group = layout(format).activation_group;
    if (group == 0) return 2LL * padded_inner;
    return (padded_inner + padded_inner / group * 8LL + 63) / 64 * 64;
}

struct Attend;  // attention.hpp
struct KVShape;
struct VocabularyPasses;  // vocabulary.hpp

// Rows of packed activations against one packed panel of a weight.
//
// x       rows as `pack` of the same format left them, x_stride bytes apart
// out     float32, out_stride floats apart; only the first `columns` of the panel's features are written
struct PanelCall {
    const uint8_t* x;
    int64_t x_stride;
    int rows;
    const uint8_t* panel;
    int inner;  // K, padded to the format's block
    float* out;
    int64_t out_stride;
    int columns;
    const float* bias;   // of the panel's features, or null
    const float* scale;  // of the panel's features, or null: applied to the sum
    // The panel's end, and the bytes from there to the panel that the caller's thread multiplies next.
    const uint8_t* end = nullptr;
    int64_t leap = 0;
};

using Product = void (*)(const PanelCall& call);

struct Isa {
    const char* name;

    // [K] float32 -> packed, padded with zeros to `inner`, a multiple of the group; int8 is rounded to nearest.
    void (*pack_bf16)(const float* x, int k, int inner, uint8_t* out);
    void (*pack_int8)(const float* x, int k, int inner, int group, uint8_t* out);
    // By groups of 32, each turned by a Hadamard matrix before: weights that are `rotated`.
    void (*pack_rotated_int8)(const float* x, int inner, uint8_t* out);
    Product (*product)(Format format);

    // x += y (if y), then out = x / rms(x) * weight.
    void (*add_rms_norm)(float* x, const float* residual, const float* y, const float* weight, float eps, int width,
                         float* out);
    void (*rms_norm)(const float* x, const float* weight, float eps, int width, float* out);
    // Rotates one head in place, halves apart.
    void (*rope)(float* x, const float* cos, const float* signed_sin, int head_dim);
    void (*add)(const float* x, const float* y, int width, float* out);
    void (*silu_mul)(const float* gate, const float* up, int width, float* out);
    void (*gelu_mul)(const float* gate, const float* up, int width, float* out);
    void (*copy_bf16)(const uint16_t* x, float scale, int width, float* out);
    // One token's K and V heads into their block.
    void (*write_kv)(const float* k, const float* v, const KVShape& shape, uint8_t* block, int offset);
    void (*attend)(const Attend& call);
    // The same in pieces: a part of the keys, and what was found in all parts, part_bytes each, from first to last.
    void (*attend_part)(const Attend& call, int part, uint8_t* found);
    void (*attend_parts)(const Attend& call, uint8_t* found, int num_parts);
    const VocabularyPasses* vocabulary;
};

// What this processor lacks for a table, null if nothing: only then may the table be used.
const char* missing_for_amx();  // asks the system for leave to use tiles, and proves them: once, before threads
const Isa* isa_amx();
const Isa* isa_amx_model();  // where avx512 can run: the same bits, slowly
const char* missing_for_avx512();
const Isa* isa_avx512();
const char* missing_for_avx2();
const Isa* isa_avx2();

}  // namespace dayzero
