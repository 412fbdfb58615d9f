// AVX2 with FMA and F16C: x86-64 processors from 2013 on that have no AVX-512. bfloat16 is computed as float32, which
// holds it; a 32-bit lane holds a pair of features, whose products are added one after the other.

#include "attention.hpp"
#include "isa.hpp"
#include "simd_avx2.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace dayzero::avx2 {

#include "products.inl"

extern const VocabularyPasses vocabulary_passes;

namespace {

// Of 16 registers 8 hold sums.
constexpr int kMaxLines = 4;
template <int Lines>
constexpr int kMixVectors = Lines <= 2 ? 4 : 2;

template <int Lines>
void score(const uint16_t* q, int head_dim, const uint16_t* const keys[4], float* out) {
    for (int t = 0; t < 4; ++t) {
        F sums[Lines][2];
        for (auto& line : sums) line[0] = line[1] = zero();
        for (int pair = 0; pair < head_dim / 2; ++pair) {
            const I k0 = load_bytes(keys[t] + pair * 32), k1 = load_bytes(keys[t] + pair * 32 + 16);
            for (int line = 0; line < Lines; ++line) {
                int32_t word;
                __builtin_memcpy(&word, q + line * head_dim + 2 * pair, 4);
                const I two = _mm256_set1_epi32(word);
                sums[line][0] = fma(low_bf16(two), low_bf16(k0), sums[line][0]);
                sums[line][1] = fma(low_bf16(two), low_bf16(k1), sums[line][1]);
                sums[line][0] = fma(high_bf16(two), high_bf16(k0), sums[line][0]);
                sums[line][1] = fma(high_bf16(two), high_bf16(k1), sums[line][1]);
            }
        }
        for (int line = 0; line < Lines; ++line) {
            for (int i = 0; i < 2; ++i) store(out + line * kKeyTile + t * 16 + i * kLanes, sums[line][i]);
        }
    }
}

#include "rows.inl"

}  // namespace
}  // namespace dayzero::avx2

namespace dayzero {

const Isa* isa_avx2() {
    static constexpr Isa isa = avx2::table("avx2");
    return &isa;
}

}  // namespace dayzero
