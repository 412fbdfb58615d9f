// Eight float32 lanes. Included by units that are compiled for AVX2, FMA and F16C only, so that no inline function of
// theirs is ever the linker's one copy for others.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace dayzero::avx2 {

using F = __m256;
using I = __m256i;
constexpr int kLanes = 8;

inline F set1(float x) { return _mm256_set1_ps(x); }
inline F zero() { return _mm256_setzero_ps(); }
inline F load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, F x) { _mm256_storeu_ps(p, x); }
inline I first(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline F load_first(const float* p, int n) { return _mm256_maskload_ps(p, first(n)); }
inline void store_first(float* p, F x, int n) {
    if (n >= kLanes) return store(p, x);  // stores with a mask are slow on AMD
    _mm256_maskstore_ps(p, first(n), x);
}
inline F add(F a, F b) { return _mm256_add_ps(a, b); }
inline F sub(F a, F b) { return _mm256_sub_ps(a, b); }
inline F mul(F a, F b) { return _mm256_mul_ps(a, b); }
inline F div(F a, F b) { return _mm256_div_ps(a, b); }
inline F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
inline F fnma(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }  // c - a * b
inline F nearest(F x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline F min(F a, F b) { return _mm256_min_ps(a, b); }
inline F max(F a, F b) { return _mm256_max_ps(a, b); }
inline F abs(F x) { return _mm256_andnot_ps(set1(-0.0f), x); }
inline float lane0(F x) { return _mm256_cvtss_f32(x); }
inline float sum(F x) {
    __m128 v = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    v = _mm_add_ps(v, _mm_movehl_ps(v, v));
    return _mm_cvtss_f32(_mm_add_ss(v, _mm_movehdup_ps(v)));
}
inline float largest(F x) {
    __m128 v = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    v = _mm_max_ps(v, _mm_movehl_ps(v, v));
    return _mm_cvtss_f32(_mm_max_ss(v, _mm_movehdup_ps(v)));
}
// Each lane i has what lane i ^ Distance had.
template <int Distance>
inline F swapped(F x) {
    if constexpr (Distance == 1) return _mm256_permute_ps(x, 0xb1);
    if constexpr (Distance == 2) return _mm256_permute_ps(x, 0x4e);
    if constexpr (Distance == 4) return _mm256_permute2f128_ps(x, x, 1);
}
// A bit for each lane.
inline uint32_t is_at_least(F a, F b) {
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GE_OQ)));
}
inline uint32_t is_nan(F x) { return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q))); }
inline F select(uint32_t lanes, F yes, F no) {
    const I bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const I chosen = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(static_cast<int32_t>(lanes)), bits), bits);
    return _mm256_blendv_ps(no, yes, _mm256_castsi256_ps(chosen));
}

inline I zero_ints() { return _mm256_setzero_si256(); }
inline I set1_ints(int32_t x) { return _mm256_set1_epi32(x); }
inline F floats(I x) { return _mm256_cvtepi32_ps(x); }
inline F half_floats(const void* p) { return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p))); }
// The bits that `mask` has in every byte, after a shift of 16-bit words.
inline I bits_of(I x, char mask) { return _mm256_and_si256(x, _mm256_set1_epi8(mask)); }
template <int N>  // to the left, if it is less than 0
inline I shifted_right(I x) {
    if constexpr (N < 0) return _mm256_slli_epi16(x, -N);
    return _mm256_srli_epi16(x, N < 0 ? 0 : N);
}
inline I either(I a, I b) { return _mm256_or_si256(a, b); }
// Signed bytes.
inline F byte_floats(const void* p) {
    return floats(_mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p))));
}
inline I round(F x) { return _mm256_cvtps_epi32(x); }
inline I add(I a, I b) { return _mm256_add_epi32(a, b); }
inline int32_t sum(I x) {
    __m128i v = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    v = _mm_add_epi32(v, _mm_unpackhi_epi64(v, v));
    return _mm_cvtsi128_si32(_mm_add_epi32(v, _mm_shuffle_epi32(v, 1)));
}
inline void store_int8(int8_t* p, I x) {  // saturated
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
}

inline I load_bytes(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
// The bfloat16 of the low and of the high half of each 32-bit lane as float32.
inline F low_bf16(I pairs) { return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)); }
inline F high_bf16(I pairs) {
    return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int32_t>(0xffff0000))));
}
// 8 bfloat16 as float32.
inline F load_bf16(const uint16_t* p) {
    return low_bf16(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}

inline F load_int8(const int8_t* p) {
    return floats(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

// Rounded to nearest, ties to even; subnormals are kept, and a NaN stays one.
inline void store_bf16(uint16_t* p, F x) {
    const I bits = _mm256_castps_si256(x);
    const I odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const I rounded = _mm256_srli_epi32(add(bits, add(odd, _mm256_set1_epi32(0x7fff))), 16);
    const I nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const I kept = _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc0), nan);
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(kept), _mm256_extracti128_si256(kept, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), words);
}

// Of numbers that bfloat16 holds.
inline void store_exact_bf16(uint16_t* p, F x) {
    const I halves = _mm256_srli_epi32(_mm256_castps_si256(x), 16);
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), words);
}

// x * 2^n, n whole and of at most 200: in two halves, neither of which leaves the range of exponents.
inline F times_power_of_two(F x, F n) {
    const I exponent = round(n), half = _mm256_srai_epi32(exponent, 1), bias = _mm256_set1_epi32(127);
    const I rest = _mm256_sub_epi32(exponent, half);
    x = mul(x, _mm256_castsi256_ps(_mm256_slli_epi32(add(half, bias), 23)));
    return mul(x, _mm256_castsi256_ps(_mm256_slli_epi32(add(rest, bias), 23)));
}

}  // namespace dayzero::avx2
