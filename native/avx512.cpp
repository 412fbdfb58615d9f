// AVX-512 with BF16 and VNNI: Intel from Cooper Lake and Sapphire Rapids on, AMD from Zen 4 on.
//
// Products: 12 rows x 32 features of float32 sums stay in registers while K goes by, each feature in a lane of its own,
// so a sum is one chain in ascending K at any number of rows. A panel (32 x K) is read once for every 12 rows.

#include "attention.hpp"
#include "isa.hpp"
#include "simd_avx512.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace dayzero::avx512 {

#include "products.inl"

extern const VocabularyPasses vocabulary_passes;

namespace {

constexpr int kMaxLines = 6;
template <int Lines>
constexpr int kMixVectors = 4;

template <int Lines>
void score(const uint16_t* q, int head_dim, const uint16_t* const keys[4], float* out) {
    F sums[Lines][4];
    for (auto& line : sums) {
        for (F& s : line) s = zero();
    }
    const int pairs = head_dim / 2;
    for (int pair = 0; pair < pairs; ++pair) {
        __m512i k[4];
        for (int t = 0; t < 4; ++t) k[t] = _mm512_loadu_si512(keys[t] + pair * 2 * kLanes);
        for (int line = 0; line < Lines; ++line) {
            int32_t two;
            __builtin_memcpy(&two, q + line * head_dim + 2 * pair, 4);
            const __m512bh b = reinterpret_cast<__m512bh>(_mm512_set1_epi32(two));
            for (int t = 0; t < 4; ++t) {
                sums[line][t] = _mm512_dpbf16_ps(sums[line][t], reinterpret_cast<__m512bh>(k[t]), b);
            }
        }
    }
    for (int line = 0; line < Lines; ++line) {
        for (int t = 0; t < 4; ++t) store(out + line * kKeyTile + t * kLanes, sums[line][t]);
    }
}

#include "rows.inl"

}  // namespace
}  // namespace dayzero::avx512

namespace dayzero {

const Isa* isa_avx512() {
    static constexpr Isa isa = avx512::table("avx512");
    return &isa;
}

}  // namespace dayzero
