// Products with tiles. A block is 32 rows x the 32 features of a panel: two tiles of activations, two of weights, four
// of sums. A panel of bytes or of bfloat16 is two tiles of weights side by side as it lies there, 128 bytes from row to
// row; other codes are unpacked to that form, a chunk along K at a time, for up to 128 rows.

#include <algorithm>
#include <utility>

#include "amx.hpp"
#include "simd_avx512.hpp"
#include "tiles.hpp"

namespace dayzero {
namespace avx512 {

#include "products.inl"

namespace {

#include "panel.inl"

constexpr int kBlockRows = 2 * kTileRows;
constexpr int kTallRows = 4 * kBlockRows;  // that share what is unpacked
constexpr int kVectorRows = 6;  // of integers, up to which avx512 goes through a panel once; not measured on AMX
constexpr int kPanelStride = 4 * kPanel;  // bytes: a pair of bfloat16, or four of int8, of each feature
constexpr int kTileFloats = kTileBytes / 4;

// Sums, activations, weights; the lower ones are of rows from 16 on.
constexpr Tile<0> kUpperLeft;
constexpr Tile<1> kUpperRight;
constexpr Tile<2> kLowerLeft;
constexpr Tile<3> kLowerRight;
constexpr Tile<4> kUpper;
constexpr Tile<5> kLower;
constexpr Tile<6> kLeft;
constexpr Tile<7> kRight;

// Of a block of up to 32 rows, whose activations of a step along K are so many bytes.
TileShapes block_shapes(int rows, int step_bytes) {
    TileShapes shapes;
    const auto set_rows = [&](int left, int right, int activations, int count) {
        if (count <= 0) return;
        shapes.set(left, count, kTileBytes);
        shapes.set(right, count, kTileBytes);
        shapes.set(activations, count, step_bytes);
    };
    set_rows(kUpperLeft, kUpperRight, kUpper, std::min(rows, kTileRows));
    set_rows(kLowerLeft, kLowerRight, kLower, rows - kTileRows);
    shapes.set(kLeft, step_bytes / 4, kTileBytes);
    shapes.set(kRight, step_bytes / 4, kTileBytes);
    return shapes;
}

template <bool has_lower, class Tiles>
void zero_sums(Tiles& tiles) {
    tiles.zero(kUpperLeft);
    tiles.zero(kUpperRight);
    if constexpr (has_lower) {
        tiles.zero(kLowerLeft);
        tiles.zero(kLowerRight);
    }
}

template <bool has_lower, class Tiles>
void load_sums(Tiles& tiles, const float (*sums)[kPanel]) {
    tiles.load(kUpperLeft, sums[0], sizeof *sums);
    tiles.load(kUpperRight, sums[0] + kTileFloats, sizeof *sums);
    if constexpr (has_lower) {
        tiles.load(kLowerLeft, sums[kTileRows], sizeof *sums);
        tiles.load(kLowerRight, sums[kTileRows] + kTileFloats, sizeof *sums);
    }
}

template <bool has_lower, class Tiles, class Number>
void store_sums(Tiles& tiles, Number (*sums)[kPanel]) {
    tiles.store(kUpperLeft, sums[0], sizeof *sums);
    tiles.store(kUpperRight, sums[0] + kTileFloats, sizeof *sums);
    if constexpr (has_lower) {
        tiles.store(kLowerLeft, sums[kTileRows], sizeof *sums);
        tiles.store(kLowerRight, sums[kTileRows] + kTileFloats, sizeof *sums);
    }
}

// One step along K.
template <bool has_lower, bool is_bf16, class Tiles>
void add_step(Tiles& tiles, const uint8_t* x, int64_t x_stride, const uint8_t* weights) {
    const auto add = [&](auto sums, auto activations, auto side) {
        if constexpr (is_bf16) {
            tiles.add_bf16(sums, activations, side);
        } else {
            tiles.add_int8(sums, activations, side);
        }
    };
    tiles.load(kUpper, x, x_stride);
    tiles.load(kLeft, weights, kPanelStride);
    tiles.load(kRight, weights + kTileBytes, kPanelStride);
    add(kUpperLeft, kUpper, kLeft);
    add(kUpperRight, kUpper, kRight);
    if constexpr (has_lower) {
        tiles.load(kLower, x + kTileRows * x_stride, x_stride);
        add(kLowerLeft, kLower, kLeft);
        add(kLowerRight, kLower, kRight);
    }
}

// 32 weights of a block along K, the first or the next, as bfloat16: it holds the 6 significant bits of e2m1 * e4m3, and
// those of e2m1 * e8m0 but for their exponents' ends. [K / 2][32][2].
template <Format format>
void unpack_e2m1(const uint8_t* block, int part, uint8_t* out) {
    constexpr int kGroup = layout(format).block / 2;
    const I table = e2m1_table(), high_half = _mm512_set1_epi32(static_cast<int32_t>(0xffff0000));
    for (int step = 0; step < 4; ++step) {
        for (int half = 0; half < 2; ++half) {
            const int k = part * 32 + step * 8;
            const uint8_t* scales = block + (kGroup + k / kGroup) * kPanel + half * kLanes;
            const F scale = format == Format::kNvfp4 ? e4m3(scales) : e8m0(scales);
            I codes = load_bytes(block + k * 16 + half * 64);
            for (int pair = 0; pair < 4; ++pair, codes = shifted_right<4>(codes)) {
                const I both = _mm512_permutexvar_epi16(codes, table);
                const F even = mul(_mm512_castsi512_ps(_mm512_slli_epi32(both, 16)), scale);
                const F odd = mul(_mm512_castsi512_ps(_mm512_and_si512(both, high_half)), scale);
                const I scaled = _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(even), 16), _mm512_castps_si512(odd));
                _mm512_store_si512(out + (step * 4 + pair) * kPanelStride + half * 64, scaled);
            }
        }
    }
}

// Codes of fewer than 8 bits as bytes, `steps` fours along K from step `first` of 32 codes on: [K / 4][32][4].
template <int bits, int first, int steps>
void unpack_codes(const uint8_t* w, uint8_t* out) {
    each<steps>([&](auto step) {
        for (int half = 0; half < 2; ++half) {
            _mm512_store_si512(out + step * kPanelStride + half * 64, four_codes<bits, first + step>(w + half * 64));
        }
    });
}

void finish_rows(const PanelCall& call, int row, int rows, const float (*sums)[kPanel]) {
    for (int r = 0; r < rows; ++r) {
        const F line[1][2] = {{load(sums[r]), load(sums[r] + kLanes)}};
        finish(call, row + r, 0, line);
    }
}

// bfloat16 activations. A sum is one chain of the instruction's own additions in ascending K; between two chunks it
// waits in memory as it is.
template <Format format, bool has_lower, class Tiles>
void bf16_rows(Tiles& tiles, const PanelCall& call, int row, int rows) {
    constexpr int kStepBytes = 32 * kPanel * 2, kBlock = layout(format).block_bytes, kChunk = 16;
    constexpr int kParts = layout(format).block / 32;  // of a step each
    constexpr bool kIsPacked = format == Format::kNvfp4 || format == Format::kMxfp4;
    static_assert(kChunk % kParts == 0 && (kIsPacked || format == Format::kBf16));
    alignas(64) float sums[kTallRows][kPanel];
    alignas(64) uint8_t unpacked[kIsPacked ? kChunk : 1][kStepBytes];
    for (int first = 0, steps = call.inner / 32; first < steps; first += kChunk) {
        const int count = std::min(kChunk, steps - first);
        const uint8_t* panel = call.panel + static_cast<int64_t>(first / kParts) * kBlock;
        if constexpr (kIsPacked) {
            for (int i = 0; i < count; ++i) {
                const uint8_t* block = panel + i / kParts * kBlock;
                if (!has_lower && i % kParts == 0) prefetch_ahead<kBlock>(call, block);
                unpack_e2m1<format>(block, i % kParts, unpacked[i]);
            }
        }
        for (int at = 0; at < rows; at += kBlockRows) {
            if (first == 0) {
                zero_sums<has_lower>(tiles);
            } else {
                load_sums<has_lower>(tiles, sums + at);
            }
            const uint8_t* x = call.x + (row + at) * call.x_stride + first * kTileBytes;
            for (int i = 0; i < count; ++i) {
                if constexpr (!kIsPacked && !has_lower) prefetch_ahead<kBlock>(call, panel + i * kBlock);
                const uint8_t* weights = kIsPacked ? unpacked[i] : panel + i * kBlock;
                add_step<has_lower, true>(tiles, x + i * kTileBytes, call.x_stride, weights);
            }
            store_sums<has_lower>(tiles, sums + at);
        }
    }
    finish_rows(call, row, rows, sums);
}

// int8 activations: exact in int32 within a group of theirs, float32 over groups in ascending K, operation by operation
// what avx512 does.
template <Format format, bool has_lower, class Tiles>
void int8_rows(Tiles& tiles, const PanelCall& call, int row, int rows) {
    constexpr FormatLayout kLayout = layout(format);
    constexpr bool kIsChannel = format == Format::kInt8Channel, kIsPacked = !kIsChannel && kLayout.bits < 8;
    constexpr int kGroup = kLayout.activation_group, kParts = kLayout.block / kGroup, kChunk = 4, kSteps = kGroup / 4;
    constexpr int kMiddle = kIsChannel ? 128 : kLayout.low == Low::kMiddle ? 1 << (kLayout.bits - 1) : 0;
    alignas(64) float sums[kTallRows][kPanel], scales[kChunk][kPanel], lows[kChunk][kPanel];
    alignas(64) int32_t dots[kChunk][kBlockRows][kPanel];
    alignas(64) uint8_t unpacked[kIsPacked ? kChunk : 1][kGroup * kPanel];
    for (int first = 0, groups = call.inner / kGroup; first < groups; first += kChunk) {
        const int count = std::min(kChunk, groups - first);
        const uint8_t* weights[kChunk];
        for (int g = 0; g < count; ++g) {
            const uint8_t* block = call.panel + static_cast<int64_t>((first + g) / kParts) * kLayout.block_bytes;
            const int k = (first + g) % kParts * kGroup;
            weights[g] = kIsChannel ? block : block + codes_at(kLayout, k);
            if constexpr (!has_lower) prefetch_ahead<(kLayout.block_bytes / kParts + 63) / 64 * 64>(call, weights[g]);
            if constexpr (!kIsChannel) {
                for (int n = 0; n < kPanel; n += kLanes) {
                    const Numbers<format> numbers(block, k, n / kLanes);
                    store(scales[g] + n, numbers.scale);
                    store(lows[g] + n, numbers.low);
                }
            }
            if constexpr (kIsPacked) {
                if (k % 32 == 0) {
                    unpack_codes<kLayout.bits, 0, kSteps>(weights[g], unpacked[g]);
                } else {
                    unpack_codes<kLayout.bits, 8 - kSteps, kSteps>(weights[g], unpacked[g]);
                }
                weights[g] = unpacked[g];
            }
        }
        for (int at = 0; at < rows; at += kBlockRows) {
            const uint8_t* x = call.x + (row + at) * call.x_stride;
            for (int g = 0; g < count; ++g) {
                zero_sums<has_lower>(tiles);
                add_step<has_lower, false>(tiles, x + (first + g) * kGroup, call.x_stride, weights[g]);
                store_sums<has_lower>(tiles, dots[g]);
            }
            for (int r = 0; r < std::min(kBlockRows, rows - at); ++r) {
                const Int8Row met(x + r * call.x_stride, call.inner, kGroup);
                for (int n = 0; n < kPanel; n += kLanes) {
                    F sum = first == 0 ? zero() : load(sums[at + r] + n);
                    for (int g = 0; g < count; ++g) {
                        const I total = set1_ints(met.sums[first + g]);
                        const I dot = add(load_bytes(dots[g][r] + n), set1_ints(-kMiddle * met.sums[first + g]));
                        const F scale = set1(met.scales[first + g]);
                        if constexpr (kIsChannel) {
                            sum = fma(floats(dot), scale, sum);
                        } else {
                            sum = gained<kLayout.low>(sum, dot, scale, floats(total), load(scales[g] + n), load(lows[g] + n));
                        }
                    }
                    store(sums[at + r] + n, sum);
                }
            }
        }
    }
    finish_rows(call, row, rows, sums);
}

template <Format format, bool has_lower, class Tiles>
void some_rows(Tiles& tiles, const PanelCall& call, int row, int rows) {
    if constexpr (layout(format).activation_group) {
        int8_rows<format, has_lower>(tiles, call, row, rows);
    } else {
        bf16_rows<format, has_lower>(tiles, call, row, rows);
    }
}

// Integers of few rows have the same bits without tiles. Whole blocks, then what is left of one.
template <class Tiles, Format format>
void linear(const PanelCall& call) {
    constexpr int kStepBytes = layout(format).activation_group ? layout(format).activation_group : kTileBytes;
    if (layout(format).activation_group && call.rows <= kVectorRows) return product(format)(call);
    const int whole = call.rows / kBlockRows * kBlockRows, rest = call.rows - whole;
    if (whole > 0) {
        Tiles tiles(block_shapes(kBlockRows, kStepBytes));
        for (int row = 0; row < whole; row += kTallRows) {
            some_rows<format, true>(tiles, call, row, std::min(kTallRows, whole - row));
        }
    }
    if (rest > 0) {
        Tiles tiles(block_shapes(rest, kStepBytes));
        (rest > kTileRows ? some_rows<format, true, Tiles> : some_rows<format, false, Tiles>)(tiles, call, whole, rest);
    }
}

template <class Tiles, int... formats>
Product one_of(Format format, std::integer_sequence<int, formats...>) {
    static constexpr Product products[] = {linear<Tiles, static_cast<Format>(formats)>...};
    return products[static_cast<int>(format)];
}

}  // namespace
}  // namespace avx512

using Formats = std::make_integer_sequence<int, kNumFormats>;

Product product_on_tiles(Format format) { return avx512::one_of<HardwareTiles>(format, Formats()); }
Product product_on_modelled_tiles(Format format) { return avx512::one_of<ModelledTiles>(format, Formats()); }

}  // namespace dayzero
