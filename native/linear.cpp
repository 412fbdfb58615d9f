#include "linear.hpp"

#include <cstring>
#include <stdexcept>
#include <string>

namespace dayzero {

Weight::Weight(Format f, int n, int k)
    : format(f), features(n), inner(k), padded_inner((k + layout(f).block - 1) / layout(f).block * layout(f).block),
      panel_bytes(static_cast<int64_t>(padded_inner / layout(f).block) * layout(f).block_bytes) {
    if (n < 1 || k < 1) throw std::invalid_argument("a weight has features");
    panels.reserve(panel_bytes * num_panels());
}

std::unique_ptr<Weight> Weight::bf16(const uint16_t* rows, int features, int inner) {
    auto weight = std::make_unique<Weight>(Format::kBf16, features, inner);
    for (int n = 0; n < features; ++n) {
        auto* at = reinterpret_cast<uint16_t*>(weight->panel(n / kPanel)) + n % kPanel * 2;
        const uint16_t* row = rows + static_cast<int64_t>(n) * inner;
        for (int k = 0; k < inner; ++k) at[static_cast<int64_t>(k / 2) * kPanel * 2 + k % 2] = row[k];
    }
    return weight;
}

namespace {

// Where feature `n` of a panel has its 4 bytes of a step through K: [tile of 16][16 lanes][4].
int lane_byte(int n) { return n / 16 * 64 + n % 16 * 4; }

// Four codes a lane and step, natural order.
void put_bytes(uint8_t* block, int n, const uint8_t* codes, int count) {
    for (int k = 0; k < count; ++k) block[k / 4 * 128 + lane_byte(n) + k % 4] = codes[k];
}

// Eight codes a lane and step: low nibbles hold the first four, high nibbles the last.
void put_nibbles(uint8_t* block, int n, const uint8_t* codes, int count) {
    for (int k = 0; k < count; ++k) {
        block[k / 8 * 128 + lane_byte(n) + k % 4] |= static_cast<uint8_t>(codes[k] << (k % 8 / 4 * 4));
    }
}

// Eight codes a lane and step in an order whose nibbles i and 4 + i, 16 bits apart, are neighbours along K.
void put_pairs(uint8_t* block, int n, const uint8_t* codes, int count) {
    for (int k = 0; k < count; ++k) {
        const int nibble = k % 8 / 2 + k % 2 * 4;
        block[k / 8 * 128 + lane_byte(n) + nibble / 2] |= static_cast<uint8_t>(codes[k] << (nibble % 2 * 4));
    }
}

Format format_of(int bits, int group, Low low) {
    for (int i = 0; i < kNumFormats; ++i) {
        const FormatLayout at = layout(static_cast<Format>(i));
        if (at.bits == bits && at.block == group && at.low == low) return static_cast<Format>(i);
    }
    throw std::invalid_argument("no format has such codes: " + std::to_string(bits) + " bits by " +
                                std::to_string(group));
}

}  // namespace

std::unique_ptr<Weight> Weight::grouped(int bits, int group, Low low, const uint8_t* codes, const uint16_t* scales,
                                        const uint16_t* lows, const int32_t* order, int features, int inner, bool rotated) {
    const Format format = format_of(bits, group, low);
    for (int k = 0; order && k < inner; ++k) {
        if (order[k] < 0 || order[k] >= inner) throw std::invalid_argument("an order names inputs");
    }
    if (inner % group) throw std::invalid_argument("K is a multiple of " + std::to_string(group));
    auto weight = std::make_unique<Weight>(format, features, inner);
    if (order) weight->order.assign(order, order + inner);
    weight->rotated = rotated;
    const int groups = inner / group;
    for (int n = 0; n < features; ++n) {
        for (int g = 0; g < groups; ++g) {
            uint8_t* block = weight->panel(n / kPanel) + static_cast<int64_t>(g) * layout(format).block_bytes;
            const int64_t at = static_cast<int64_t>(n) * groups + g;
            (bits == 4 ? put_nibbles : put_bytes)(block, n % kPanel, codes + at * group, group);
            auto* numbers = reinterpret_cast<uint16_t*>(block + group * kPanel * bits / 8);
            numbers[n % kPanel] = scales[at];
            if (low != Low::kMiddle) numbers[kPanel + n % kPanel] = lows[at];
        }
    }
    return weight;
}

std::unique_ptr<Weight> Weight::per_channel(const uint8_t* codes, const float* scales, int features, int inner) {
    auto weight = std::make_unique<Weight>(Format::kInt8Channel, features, inner);
    for (int n = 0; n < features; ++n) {
        put_bytes(weight->panel(n / kPanel), n % kPanel, codes + static_cast<int64_t>(n) * inner, inner);
    }
    weight->scale.assign(scales, scales + features);
    return weight;
}

std::unique_ptr<Weight> Weight::nvfp4(const uint8_t* codes, const uint8_t* scales, float global, int features,
                                      int inner) {
    if (inner % 32) throw std::invalid_argument("K is a multiple of 32");
    auto weight = std::make_unique<Weight>(Format::kNvfp4, features, inner);
    for (int n = 0; n < features; ++n) {
        for (int g = 0; g < inner / 32; ++g) {
            uint8_t* block = weight->panel(n / kPanel) + static_cast<int64_t>(g) * layout(Format::kNvfp4).block_bytes;
            const int64_t at = static_cast<int64_t>(n) * (inner / 32) + g;
            put_pairs(block, n % kPanel, codes + at * 32, 32);
            for (int half = 0; half < 2; ++half) block[512 + half * kPanel + n % kPanel] = scales[at * 2 + half];
        }
    }
    weight->scale.assign(static_cast<size_t>(features), global);
    return weight;
}

}  // namespace dayzero
