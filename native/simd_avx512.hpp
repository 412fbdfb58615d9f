// Sixteen float32 lanes. Included by units that are compiled for AVX-512 only, so that no inline function of theirs is
// ever the linker's one copy for others.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace dayzero::avx512 {

using F = __m512;
using I = __m512i;
using Mask = __mmask16;
constexpr int kLanes = 16;

inline F set1(float x) { return _mm512_set1_ps(x); }
inline F zero() { return _mm512_setzero_ps(); }
inline F load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, F x) { _mm512_storeu_ps(p, x); }
inline Mask first(int n) { return static_cast<Mask>(n >= 16 ? 0xffff : (1u << n) - 1); }
inline F load_first(const float* p, int n) { return _mm512_maskz_loadu_ps(first(n), p); }
inline void store_first(float* p, F x, int n) { _mm512_mask_storeu_ps(p, first(n), x); }
inline F add(F a, F b) { return _mm512_add_ps(a, b); }
inline F sub(F a, F b) { return _mm512_sub_ps(a, b); }
inline F mul(F a, F b) { return _mm512_mul_ps(a, b); }
inline F div(F a, F b) { return _mm512_div_ps(a, b); }
inline F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
inline F fnma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }  // c - a * b
inline F nearest(F x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline F min(F a, F b) { return _mm512_min_ps(a, b); }
inline F max(F a, F b) { return _mm512_max_ps(a, b); }
inline F abs(F x) { return _mm512_abs_ps(x); }
inline float sum(F x) { return _mm512_reduce_add_ps(x); }
inline float largest(F x) { return _mm512_reduce_max_ps(x); }
inline float lane0(F x) { return _mm512_cvtss_f32(x); }
// Each lane i has what lane i ^ Distance had.
template <int Distance>
inline F swapped(F x) {
    if constexpr (Distance == 1) return _mm512_permute_ps(x, 0xb1);
    if constexpr (Distance == 2) return _mm512_permute_ps(x, 0x4e);
    if constexpr (Distance == 4) return _mm512_shuffle_f32x4(x, x, 0xb1);
    if constexpr (Distance == 8) return _mm512_shuffle_f32x4(x, x, 0x4e);
}
// A bit for each lane.
inline uint32_t is_at_least(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
inline uint32_t is_nan(F x) { return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q); }
inline F select(uint32_t lanes, F yes, F no) { return _mm512_mask_mov_ps(no, static_cast<Mask>(lanes), yes); }

inline I zero_ints() { return _mm512_setzero_si512(); }
inline I set1_ints(int32_t x) { return _mm512_set1_epi32(x); }
inline F floats(I x) { return _mm512_cvtepi32_ps(x); }
inline F half_floats(const void* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p))); }
inline I load_bytes(const void* p) { return _mm512_loadu_si512(p); }
// The bits that `mask` has in every byte, after a shift of 16-bit words.
inline I bits_of(I x, char mask) { return _mm512_and_si512(x, _mm512_set1_epi8(mask)); }
template <int N>  // to the left, if it is less than 0
inline I shifted_right(I x) {
    if constexpr (N < 0) return _mm512_slli_epi16(x, -N);
    return _mm512_srli_epi16(x, N < 0 ? 0 : N);
}
inline I either(I a, I b) { return _mm512_or_si512(a, b); }
// Signed bytes.
inline F byte_floats(const void* p) {
    return floats(_mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))));
}
inline I round(F x) { return _mm512_cvtps_epi32(x); }
inline I add(I a, I b) { return _mm512_add_epi32(a, b); }
inline int32_t sum(I x) { return _mm512_reduce_add_epi32(x); }
inline void store_int8(int8_t* p, I x) {  // saturated
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(x));
}

inline F load_int8(const int8_t* p) {
    return floats(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}

// 16 bfloat16 as float32.
inline F load_bf16(const uint16_t* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)), 16));
}

// Rounded to nearest, ties to even. Unlike vcvtneps2bf16 it keeps subnormals, and a NaN a NaN.
inline void store_bf16(uint16_t* p, F x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    const __m512i kept = _mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), _mm512_set1_epi32(0x7fc0));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(kept));
}

// e4m3 (positive) as float32: its bits under a float's exponent, which is then too small by 120.
inline F e4m3(const uint8_t* p) {
    const __m512i bits = _mm512_slli_epi32(_mm512_cvtepu8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(p))), 20);
    return mul(_mm512_castsi512_ps(bits), set1(0x1p120f));
}

// e8m0 as float32: the bits of an exponent. 0 is 2^-127, below the least normal; 255, which is no number, is infinity.
inline F e8m0(const uint8_t* p) {
    const I bits = _mm512_slli_epi32(_mm512_cvtepu8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(p))), 23);
    return _mm512_castsi512_ps(_mm512_max_epu32(bits, _mm512_set1_epi32(0x00400000)));
}

// e2m1 as bfloat16, for vpermw, which looks at 5 bits of a word: the table is there twice, and the neighbour's bit does
// not matter.
inline I e2m1_table() {
    alignas(64) static constexpr uint16_t kE2M1[32] = {
        0x0000, 0x3f00, 0x3f80, 0x3fc0, 0x4000, 0x4040, 0x4080, 0x40c0, 0x8000, 0xbf00, 0xbf80,
        0xbfc0, 0xc000, 0xc040, 0xc080, 0xc0c0, 0x0000, 0x3f00, 0x3f80, 0x3fc0, 0x4000, 0x4040,
        0x4080, 0x40c0, 0x8000, 0xbf00, 0xbf80, 0xbfc0, 0xc000, 0xc040, 0xc080, 0xc0c0};
    return _mm512_load_si512(kE2M1);
}

// Of numbers that bfloat16 holds.
inline void store_exact_bf16(uint16_t* p, F x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)_mm512_cvtneps_pbh(x));
}

// x * 2^n, n whole.
inline F times_power_of_two(F x, F n) { return _mm512_scalef_ps(x, n); }

}  // namespace dayzero::avx512
