// Products with AVX2, for up to 4 rows at a time: 8 of 16 registers hold sums, 1 or 2 rows x 32 features or 3 or 4
// rows x 16 features. Each feature has a lane of its own, so a sum is one chain in ascending K at any number of rows.

#include <utility>

#include "isa.hpp"
#include "simd_avx2.hpp"

namespace dayzero::avx2 {

#include "products.inl"

namespace {

#include "panel.inl"

constexpr int kPanelVectors = kPanel / kLanes;

inline int32_t word_at(const void* p) {
    int32_t word;
    __builtin_memcpy(&word, p, 4);
    return word;
}

template <int Rows, int Vectors, typename V>
inline void clear(V (&sums)[Rows][Vectors]) {
    for (auto& line : sums) {
        for (V& s : line) s = V{};
    }
}

// A product is a type whose `multiply` adds up rows against some vectors of a panel. Few rows take a panel whole, more
// take it in two halves.
template <typename Product, int Rows>
void rows(const PanelCall& call, int row) {
    constexpr int kVectors = Rows <= 2 ? kPanelVectors : kPanelVectors / 2;
    for (int vector = 0; vector < kPanelVectors; vector += kVectors) {
        F sums[Rows][kVectors];
        clear(sums);
        Product::multiply(call, row, vector, sums);
        finish(call, row, vector, sums);
    }
}

template <typename Product>
void linear(const PanelCall& call) {
    static constexpr RowsOf rows_of[4] = {rows<Product, 1>, rows<Product, 2>, rows<Product, 3>, rows<Product, 4>};
    in_blocks<4>(call, rows_of);
}

// 32 bfloat16 of each row as float32.
template <int Rows>
inline void widen(const uint8_t* x, int64_t stride, float (&out)[Rows][32]) {
    for (int r = 0; r < Rows; ++r) {
        const auto* from = reinterpret_cast<const uint16_t*>(x + r * stride);
        for (int i = 0; i < 32; i += kLanes) store(&out[r][i], load_bf16(from + i));
    }
}

// Feature values at one place along K times those of the rows.
template <int Rows, int Vectors>
inline void meet(const F (&value)[Vectors], const float (&x)[Rows][32], int k, F (&sums)[Rows][Vectors]) {
    for (int r = 0; r < Rows; ++r) {
        const F one = set1(x[r][k]);
        for (int v = 0; v < Vectors; ++v) sums[r][v] = fma(value[v], one, sums[r][v]);
    }
}

// bfloat16, panel [K / 2][32][2].
struct Bf16 {
    template <int Rows, int Vectors>
    static void multiply(const PanelCall& call, int row, int vector, F (&sums)[Rows][Vectors]) {
        const uint8_t* x = call.x + row * call.x_stride;
        const uint8_t* w = call.panel + vector * 32;
        alignas(32) float wide[Rows][32];
        for (int block = 0; block < call.inner / 32; ++block) {
            widen(x + block * 64, call.x_stride, wide);
            for (int k = 0; k < 32; k += 2, w += 128) {
                if constexpr (Vectors == kPanelVectors) prefetch_ahead<128>(call, w);
                F value[Vectors];
                for (int v = 0; v < Vectors; ++v) value[v] = low_bf16(load_bytes(w + v * 32));
                meet(value, wide, k, sums);
                for (int v = 0; v < Vectors; ++v) value[v] = high_bf16(load_bytes(w + v * 32));
                meet(value, wide, k + 1, sums);
            }
        }
    }
};

// Exact sums of products of 4 codes in each lane, `Steps` times.
//
// 8 bits: even and odd bytes as 16-bit integers, since products of bytes can exceed what vpmaddubsw adds up in.
template <int Steps, int Rows, int Vectors>
inline void dot_bytes(const uint8_t* w, const int8_t* codes, int64_t stride, I (&dots)[Rows][Vectors]) {
    // The activations likewise, once for all vectors: [step] of pairs (0, 2) and (1, 3).
    alignas(32) int32_t even[Rows][Steps], odd[Rows][Steps];
    for (int r = 0; r < Rows; ++r) {
        for (int i = 0; i < Steps; i += kLanes) {
            const I a = load_bytes(codes + r * stride + i * 4);
            const I low = _mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8);
            _mm256_store_si256(reinterpret_cast<__m256i*>(&even[r][i]), low);
            _mm256_store_si256(reinterpret_cast<__m256i*>(&odd[r][i]), _mm256_srai_epi16(a, 8));
        }
    }
    const auto meet = [&](const I(&value)[Vectors], const int32_t(&x)[Rows][Steps], int step) {
        for (int r = 0; r < Rows; ++r) {
            const I two = _mm256_set1_epi32(x[r][step]);
            for (int v = 0; v < Vectors; ++v) dots[r][v] = add(dots[r][v], _mm256_madd_epi16(value[v], two));
        }
    };
    for (int step = 0; step < Steps; ++step, w += 128) {
        I value[Vectors];
        for (int v = 0; v < Vectors; ++v) value[v] = _mm256_and_si256(load_bytes(w + v * 32), _mm256_set1_epi16(255));
        meet(value, even, step);
        for (int v = 0; v < Vectors; ++v) value[v] = _mm256_srli_epi16(load_bytes(w + v * 32), 8);
        meet(value, odd, step);
    }
}

// Fewer bits: 16-bit sums of products by pairs, as many as they have room for.
template <int Bits, int First, int Steps, int Rows, int Vectors>
inline void dot_codes(const uint8_t* w, const int8_t* codes, int64_t stride, I (&dots)[Rows][Vectors]) {
    constexpr int kRoom = 32767 / (2 * ((1 << Bits) - 1) * 128);
    I narrow[Rows][Vectors];
    clear(narrow);
    each<Steps>([&](auto step) {
        I value[Vectors];
        for (int v = 0; v < Vectors; ++v) value[v] = four_codes<Bits, First + step>(w + v * 32);
        for (int r = 0; r < Rows; ++r) {
            const I four = set1_ints(word_at(codes + r * stride + step * 4));
            for (int v = 0; v < Vectors; ++v) {
                narrow[r][v] = _mm256_add_epi16(narrow[r][v], _mm256_maddubs_epi16(value[v], four));
                if constexpr ((step + 1) % kRoom == 0 || step + 1 == Steps) {
                    dots[r][v] = add(dots[r][v], _mm256_madd_epi16(narrow[r][v], _mm256_set1_epi16(1)));
                    narrow[r][v] = zero_ints();
                }
            }
        }
    });
}

// Integer codes by groups, met by int8 activations by groups of 32 or 16: exact in int32 within these, float32 over them
// in ascending K. Half of the range of the codes is taken off by the total of the activations.
template <Format kFormat>
struct Grouped {
    template <int Rows, int Vectors>
    static void multiply(const PanelCall& call, int row, int vector, F (&sums)[Rows][Vectors]) {
        constexpr FormatLayout kLayout = layout(kFormat);
        constexpr int kGroup = kLayout.activation_group, kSteps = kGroup / 4;
        constexpr int kMiddle = kLayout.low == Low::kMiddle ? 1 << (kLayout.bits - 1) : 0;
        const uint8_t* x = call.x + row * call.x_stride;
        const uint8_t* block = call.panel;
        for (int first = 0; first < call.inner; first += kLayout.block, block += kLayout.block_bytes) {
            for (int k = 0; k < kLayout.block; k += 32) {
                const uint8_t* w = block + codes_at(kLayout, k);
                if constexpr (Vectors == kPanelVectors) prefetch_share<kFormat>(call, w);
                each<32 / kGroup>([&](auto part) {
                    const int group = (first + k) / kGroup + part;
                    const auto* codes = reinterpret_cast<const int8_t*>(x) + group * kGroup;
                    I dots[Rows][Vectors];
                    clear(dots);
                    if constexpr (kLayout.bits == 8) {
                        dot_bytes<8>(w + vector * 32, codes, call.x_stride, dots);
                    } else {
                        dot_codes<kLayout.bits, part * kSteps, kSteps>(w + vector * 32, codes, call.x_stride, dots);
                    }
                    for (int v = 0; v < Vectors; ++v) {
                        const Numbers<kFormat> numbers(block, k + part * kGroup, vector + v);
                        for (int r = 0; r < Rows; ++r) {
                            const Int8Row at(x + r * call.x_stride, call.inner, kGroup);
                            const I dot = add(dots[r][v], set1_ints(-kMiddle * at.sums[group]));
                            sums[r][v] = gained<kLayout.low>(sums[r][v], dot, set1(at.scales[group]),
                                                             floats(set1_ints(at.sums[group])), numbers.scale, numbers.low);
                        }
                    }
                });
            }
        }
    }
};

// One scale for each feature: groups are those of the activations.
struct Channel {
    template <int Rows, int Vectors>
    static void multiply(const PanelCall& call, int row, int vector, F (&sums)[Rows][Vectors]) {
        const uint8_t* x = call.x + row * call.x_stride;
        const uint8_t* w = call.panel;
        for (int group = 0; group < call.inner / 64; ++group, w += 2048) {
            if constexpr (Vectors == kPanelVectors) prefetch_ahead<2048>(call, w);
            I dots[Rows][Vectors];
            clear(dots);
            dot_bytes<16>(w + vector * 32, reinterpret_cast<const int8_t*>(x) + group * 64, call.x_stride, dots);
            for (int r = 0; r < Rows; ++r) {
                const Int8Row at(x + r * call.x_stride, call.inner, 64);
                const I offset = _mm256_set1_epi32(-128 * at.sums[group]);
                for (int v = 0; v < Vectors; ++v) {
                    const F dot = _mm256_cvtepi32_ps(add(dots[r][v], offset));
                    sums[r][v] = fma(dot, set1(at.scales[group]), sums[r][v]);
                }
            }
        }
    }
};

// e4m3 (positive) as float32, halved: its bits under a float's exponent, which is then too small by 120.
inline F half_e4m3(const uint8_t* p) {
    const I bits = _mm256_slli_epi32(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))), 20);
    return mul(_mm256_castsi256_ps(bits), set1(0x1p119f));
}

// e8m0 as float32, halved: the bits of an exponent. 0 is 2^-127, below the least normal; 255, which is no number, is
// infinity.
inline F half_e8m0(const uint8_t* p) {
    const I bits = _mm256_slli_epi32(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))), 23);
    return mul(_mm256_castsi256_ps(_mm256_max_epu32(bits, set1_ints(0x00400000))), set1(0.5f));
}

// Twice e2m1 through a table of bytes: a whole number, exact as the products with bfloat16 activations are. The nibbles
// of a lane are 0, 2, 4, 6, 1, 3, 5, 7 along K (linear.cpp: put_pairs).
template <Format kFormat>
struct E2m1 {
    template <int Rows, int Vectors>
    static void multiply(const PanelCall& call, int row, int vector, F (&sums)[Rows][Vectors]) {
        constexpr int kBlock = layout(kFormat).block, kGroup = kBlock / 2, kBytes = layout(kFormat).block_bytes;
        const uint8_t* w = call.panel;
        for (int first = 0; first < call.inner; first += kBlock, w += kBytes) {
            if constexpr (Vectors == kPanelVectors) prefetch_ahead<kBytes>(call, w);
            alignas(32) float x[Rows][32];
            for (int start = 0; start < kBlock; start += kGroup) {
                if (start % 32 == 0) widen(call.x + row * call.x_stride + (first + start) * 2, call.x_stride, x);
                F dots[Rows][Vectors];
                clear(dots);
                for (int k = start; k < start + kGroup; k += 8) eight(w + k * 16 + vector * 32, x, k % 32, dots);
                for (int v = 0; v < Vectors; ++v) {
                    const uint8_t* scales = w + (kGroup + start / kGroup) * kPanel + (vector + v) * kLanes;
                    const F scale = kFormat == Format::kNvfp4 ? half_e4m3(scales) : half_e8m0(scales);
                    for (int r = 0; r < Rows; ++r) sums[r][v] = fma(dots[r][v], scale, sums[r][v]);
                }
            }
        }
    }

    // Eight codes of each lane.
    template <int Rows, int Vectors>
    static void eight(const uint8_t* w, const float (&x)[Rows][32], int k, F (&dots)[Rows][Vectors]) {
        const I table = _mm256_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12,  //
                                         0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
        const I low_bits = _mm256_set1_epi8(15);
        I low[Vectors], high[Vectors];
        for (int v = 0; v < Vectors; ++v) {
            const I codes = load_bytes(w + v * 32);
            low[v] = _mm256_shuffle_epi8(table, _mm256_and_si256(codes, low_bits));
            high[v] = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(codes, 4), low_bits));
        }
        meet_bytes<0>(low, x, k, dots);
        meet_bytes<2>(low, x, k + 1, dots);
        meet_bytes<0>(high, x, k + 2, dots);
        meet_bytes<2>(high, x, k + 3, dots);
        meet_bytes<1>(low, x, k + 4, dots);
        meet_bytes<3>(low, x, k + 5, dots);
        meet_bytes<1>(high, x, k + 6, dots);
        meet_bytes<3>(high, x, k + 7, dots);
    }

    // Byte `At` of each lane, signed.
    template <int At, int Rows, int Vectors>
    static void meet_bytes(const I (&four)[Vectors], const float (&x)[Rows][32], int k, F (&dots)[Rows][Vectors]) {
        F value[Vectors];
        for (int v = 0; v < Vectors; ++v) {
            value[v] = _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(four[v], 24 - 8 * At), 24));
        }
        meet(value, x, k, dots);
    }
};

}  // namespace

Product product(Format format) {
    switch (format) {
        case Format::kBf16: return linear<Bf16>;
        case Format::kInt4: return linear<Grouped<Format::kInt4>>;
        case Format::kInt4By64: return linear<Grouped<Format::kInt4By64>>;
        case Format::kInt4By128: return linear<Grouped<Format::kInt4By128>>;
        case Format::kInt4Zero: return linear<Grouped<Format::kInt4Zero>>;
        case Format::kInt4ZeroBy64: return linear<Grouped<Format::kInt4ZeroBy64>>;
        case Format::kInt4ZeroBy128: return linear<Grouped<Format::kInt4ZeroBy128>>;
        case Format::kInt4Min: return linear<Grouped<Format::kInt4Min>>;
        case Format::kInt5: return linear<Grouped<Format::kInt5>>;
        case Format::kInt5Min: return linear<Grouped<Format::kInt5Min>>;
        case Format::kInt8: return linear<Grouped<Format::kInt8>>;
        case Format::kInt8Channel: return linear<Channel>;
        case Format::kQ4K: return linear<Grouped<Format::kQ4K>>;
        case Format::kQ5K: return linear<Grouped<Format::kQ5K>>;
        case Format::kQ6K: return linear<Grouped<Format::kQ6K>>;
        case Format::kNvfp4: return linear<E2m1<Format::kNvfp4>>;
        case Format::kMxfp4: return linear<E2m1<Format::kMxfp4>>;
    }
    return nullptr;
}

}  // namespace dayzero::avx2
