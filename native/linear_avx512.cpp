// Products with AVX-512. A panel holds 32 features; k goes by in pairs (bfloat16) or fours (int8) of a 32-bit lane.

#include <utility>

#include "isa.hpp"
#include "simd_avx512.hpp"

namespace dayzero::avx512 {

#include "products.inl"

namespace {

#include "panel.inl"

// bfloat16, panel [K / 2][32][2].
template <int Rows>
void bf16_rows(const PanelCall& call, int row) {
    F sums[Rows][2];
    for (auto& line : sums) line[0] = line[1] = zero();
    const uint8_t* x = call.x + row * call.x_stride;
    const uint8_t* w = call.panel;
    for (int pair = 0; pair < call.inner / 2; ++pair, w += 128) {
        if (row == 0) prefetch_ahead<128>(call, w);
        const auto w0 = reinterpret_cast<__m512bh>(_mm512_load_si512(w));
        const auto w1 = reinterpret_cast<__m512bh>(_mm512_load_si512(w + 64));
        for (int r = 0; r < Rows; ++r) {
            int32_t two;
            __builtin_memcpy(&two, x + r * call.x_stride + 4 * pair, 4);
            const auto both = reinterpret_cast<__m512bh>(_mm512_set1_epi32(two));
            sums[r][0] = _mm512_dpbf16_ps(sums[r][0], w0, both);
            sums[r][1] = _mm512_dpbf16_ps(sums[r][1], w1, both);
        }
    }
    finish(call, row, 0, sums);
}

inline __m512i four(const int8_t* codes) {
    int32_t word;
    __builtin_memcpy(&word, codes, 4);
    return _mm512_set1_epi32(word);
}

// Integer codes by groups, met by int8 activations by groups of 32 or 16: exact in int32 within these, float32 over them
// in ascending K. Codes are unsigned; half of their range is taken off by the total of the activations, where a sum
// begins.
template <Format kFormat, int Rows>
void grouped_rows(const PanelCall& call, int row) {
    constexpr FormatLayout kLayout = layout(kFormat);
    constexpr int kGroup = kLayout.activation_group;
    constexpr int kMiddle = kLayout.low == Low::kMiddle ? 1 << (kLayout.bits - 1) : 0;
    F sums[Rows][2];
    for (auto& line : sums) line[0] = line[1] = zero();
    const uint8_t* x = call.x + row * call.x_stride;
    const uint8_t* block = call.panel;
    for (int first = 0; first < call.inner; first += kLayout.block, block += kLayout.block_bytes) {
        for (int k = 0; k < kLayout.block; k += 32) {
            const uint8_t* w = block + codes_at(kLayout, k);
            if (row == 0) prefetch_share<kFormat>(call, w);
            each<32 / kGroup>([&](auto part) {
                const int group = (first + k) / kGroup + part;
                I dots[Rows][2];
                for (int r = 0; r < Rows; ++r) {
                    const Int8Row at(x + r * call.x_stride, call.inner, kGroup);
                    dots[r][0] = dots[r][1] = set1_ints(-kMiddle * at.sums[group]);
                }
                each<kGroup / 4>([&](auto step) {
                    constexpr int kStep = part * (kGroup / 4) + step;
                    const I w0 = four_codes<kLayout.bits, kStep>(w), w1 = four_codes<kLayout.bits, kStep>(w + 64);
                    for (int r = 0; r < Rows; ++r) {
                        const I a = four(reinterpret_cast<const int8_t*>(x) + r * call.x_stride + group * kGroup + step * 4);
                        dots[r][0] = _mm512_dpbusd_epi32(dots[r][0], w0, a);
                        dots[r][1] = _mm512_dpbusd_epi32(dots[r][1], w1, a);
                    }
                });
                for (int half = 0; half < 2; ++half) {
                    const Numbers<kFormat> numbers(block, k + part * kGroup, half);
                    for (int r = 0; r < Rows; ++r) {
                        const Int8Row at(x + r * call.x_stride, call.inner, kGroup);
                        sums[r][half] =
                            gained<kLayout.low>(sums[r][half], dots[r][half], set1(at.scales[group]),
                                                floats(set1_ints(at.sums[group])), numbers.scale, numbers.low);
                    }
                }
            });
        }
    }
    finish(call, row, 0, sums);
}

// One scale for each feature: groups are those of the activations.
template <int Rows>
void channel_rows(const PanelCall& call, int row) {
    F sums[Rows][2];
    for (auto& line : sums) line[0] = line[1] = zero();
    const uint8_t* x = call.x + row * call.x_stride;
    const uint8_t* w = call.panel;
    for (int group = 0; group < call.inner / 64; ++group, w += 2048) {
        if (row == 0) prefetch_ahead<2048>(call, w);
        __m512i dots[Rows][2];
        for (int r = 0; r < Rows; ++r) {
            const Int8Row at(x + r * call.x_stride, call.inner, 64);
            dots[r][0] = dots[r][1] = _mm512_set1_epi32(-128 * at.sums[group]);
        }
        for (int step = 0; step < 16; ++step) {
            const __m512i w0 = _mm512_load_si512(w + step * 128), w1 = _mm512_load_si512(w + step * 128 + 64);
            for (int r = 0; r < Rows; ++r) {
                const __m512i a = four(reinterpret_cast<const int8_t*>(x + r * call.x_stride) + group * 64 + step * 4);
                dots[r][0] = _mm512_dpbusd_epi32(dots[r][0], w0, a);
                dots[r][1] = _mm512_dpbusd_epi32(dots[r][1], w1, a);
            }
        }
        for (int r = 0; r < Rows; ++r) {
            const Int8Row at(x + r * call.x_stride, call.inner, 64);
            const F scale = set1(at.scales[group]);
            for (int half = 0; half < 2; ++half) sums[r][half] = fma(_mm512_cvtepi32_ps(dots[r][half]), scale, sums[r][half]);
        }
    }
    finish(call, row, 0, sums);
}

// Exact, as the products of e2m1 with bfloat16 activations are.
template <Format kFormat, int Rows>
void e2m1_rows(const PanelCall& call, int row) {
    constexpr int kBlock = layout(kFormat).block, kGroup = kBlock / 2, kBytes = layout(kFormat).block_bytes;
    const I table = e2m1_table();
    F sums[Rows][2];
    for (auto& line : sums) line[0] = line[1] = zero();
    const uint8_t* x = call.x + row * call.x_stride;
    const uint8_t* w = call.panel;
    for (int first = 0; first < call.inner; first += kBlock, w += kBytes) {
        if (row == 0) prefetch_ahead<kBytes>(call, w);
        for (int group = 0; group < 2; ++group) {
            F dots[Rows][2];
            for (auto& line : dots) line[0] = line[1] = zero();
            for (int k = group * kGroup; k < group * kGroup + kGroup; k += 8) {
                __m512i codes[2];
                for (int half = 0; half < 2; ++half) {
                    codes[half] = _mm512_load_si512(w + k * 16 + half * 64);
                }
                for (int pair = 0; pair < 4; ++pair) {
                    __m512bh value[2];
                    for (int half = 0; half < 2; ++half) {
                        value[half] = reinterpret_cast<__m512bh>(_mm512_permutexvar_epi16(codes[half], table));
                        codes[half] = _mm512_srli_epi16(codes[half], 4);
                    }
                    for (int r = 0; r < Rows; ++r) {
                        const uint8_t* two = x + r * call.x_stride + (first + k + pair * 2) * 2;
                        int32_t word;
                        __builtin_memcpy(&word, two, 4);
                        const auto both = reinterpret_cast<__m512bh>(_mm512_set1_epi32(word));
                        for (int half = 0; half < 2; ++half) {
                            dots[r][half] = _mm512_dpbf16_ps(dots[r][half], value[half], both);
                        }
                    }
                }
            }
            for (int half = 0; half < 2; ++half) {
                const uint8_t* scales = w + kGroup * kPanel + group * kPanel + half * kLanes;
                const F scale = kFormat == Format::kNvfp4 ? e4m3(scales) : e8m0(scales);
                for (int r = 0; r < Rows; ++r) sums[r][half] = fma(dots[r][half], scale, sums[r][half]);
            }
        }
    }
    finish(call, row, 0, sums);
}

void linear_bf16(const PanelCall& call) {
    static constexpr RowsOf rows_of[12] = {bf16_rows<1>, bf16_rows<2>, bf16_rows<3>,  bf16_rows<4>,
                                           bf16_rows<5>, bf16_rows<6>, bf16_rows<7>,  bf16_rows<8>,
                                           bf16_rows<9>, bf16_rows<10>, bf16_rows<11>, bf16_rows<12>};
    in_blocks<12>(call, rows_of);
}

template <Format kFormat>
void linear_grouped(const PanelCall& call) {
    static constexpr RowsOf rows_of[6] = {grouped_rows<kFormat, 1>, grouped_rows<kFormat, 2>, grouped_rows<kFormat, 3>,
                                          grouped_rows<kFormat, 4>, grouped_rows<kFormat, 5>, grouped_rows<kFormat, 6>};
    in_blocks<6>(call, rows_of);
}

void linear_int8_channel(const PanelCall& call) {
    static constexpr RowsOf rows_of[6] = {channel_rows<1>, channel_rows<2>, channel_rows<3>,
                                          channel_rows<4>, channel_rows<5>, channel_rows<6>};
    in_blocks<6>(call, rows_of);
}

template <Format kFormat>
void linear_e2m1(const PanelCall& call) {
    static constexpr RowsOf rows_of[6] = {e2m1_rows<kFormat, 1>, e2m1_rows<kFormat, 2>, e2m1_rows<kFormat, 3>,
                                          e2m1_rows<kFormat, 4>, e2m1_rows<kFormat, 5>, e2m1_rows<kFormat, 6>};
    in_blocks<6>(call, rows_of);
}

}  // namespace

Product product(Format format) {
    switch (format) {
        case Format::kBf16: return linear_bf16;
        case Format::kInt4: return linear_grouped<Format::kInt4>;
        case Format::kInt4By64: return linear_grouped<Format::kInt4By64>;
        case Format::kInt4By128: return linear_grouped<Format::kInt4By128>;
        case Format::kInt4Zero: return linear_grouped<Format::kInt4Zero>;
        case Format::kInt4ZeroBy64: return linear_grouped<Format::kInt4ZeroBy64>;
        case Format::kInt4ZeroBy128: return linear_grouped<Format::kInt4ZeroBy128>;
        case Format::kInt4Min: return linear_grouped<Format::kInt4Min>;
        case Format::kInt5: return linear_grouped<Format::kInt5>;
        case Format::kInt5Min: return linear_grouped<Format::kInt5Min>;
        case Format::kInt8: return linear_grouped<Format::kInt8>;
        case Format::kInt8Channel: return linear_int8_channel;
        case Format::kQ4K: return linear_grouped<Format::kQ4K>;
        case Format::kQ5K: return linear_grouped<Format::kQ5K>;
        case Format::kQ6K: return linear_grouped<Format::kQ6K>;
        case Format::kNvfp4: return linear_e2m1<Format::kNvfp4>;
        case Format::kMxfp4: return linear_e2m1<Format::kMxfp4>;
    }
    return nullptr;
}

}  // namespace dayzero::avx512
