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

// Low nibbles of the first four of eight codes beside those of the last four; high bits as many as a byte has room for.
void put_low_and_high(uint8_t* block, int n, const uint8_t* codes, int bits) {
    const int high = bits - 4;
    for (int k = 0; k < 32; ++k) {
        const int step = k / 4, lane = lane_byte(n) + k % 4;
        block[step / 2 * 128 + lane] |= static_cast<uint8_t>((codes[k] & 15) << (step % 2 * 4));
        if (!high) continue;
        const int steps = 8 / high;
        block[code_bytes(4) + step / steps * 128 + lane] |= static_cast<uint8_t>(codes[k] >> 4 << (step % steps * high));
    }
}

// Eight codes a lane and step in an order whose nibbles i and 4 + i, 16 bits apart, are neighbours along K.
void put_pairs(uint8_t* block, int n, const uint8_t* codes, int count) {
    for (int k = 0; k < count; ++k) {
        const int nibble = k % 8 / 2 + k % 2 * 4;
        block[k / 8 * 128 + lane_byte(n) + nibble / 2] |= static_cast<uint8_t>(codes[k] << (nibble % 2 * 4));
    }
}

void put_block_codes(uint8_t* block, const FormatLayout& at, int n, const uint8_t* codes) {
    for (int k = 0; k < at.block; k += 32) {
        uint8_t* to = block + codes_at(at, k);
        if (at.bits == 8) {
            put_bytes(to, n, codes + k, 32);
        } else {
            put_low_and_high(to, n, codes + k, at.bits);
        }
    }
}

// Where two_level, a group is of activations.
Format format_of(int bits, int group, Low low, bool two_level) {
    for (int i = 0; i < kNumFormats; ++i) {
        const FormatLayout at = layout(static_cast<Format>(i));
        const int its_group = two_level ? at.activation_group : at.block;
        if (at.bits == bits && at.two_level == two_level && at.low == low && its_group == group) return static_cast<Format>(i);
    }
    throw std::invalid_argument("no format has such codes: " + std::to_string(bits) + " bits by " +
                                std::to_string(group));
}

void check_inner(int inner, int block) {
    if (inner % block) throw std::invalid_argument("K is a multiple of " + std::to_string(block));
}

}  // namespace

std::unique_ptr<Weight> Weight::grouped(int bits, int group, Low low, const uint8_t* codes, const uint16_t* scales,
                                        const uint16_t* lows, const int32_t* order, int features, int inner, bool rotated) {
    const Format format = format_of(bits, group, low, false);
    for (int k = 0; order && k < inner; ++k) {
        if (order[k] < 0 || order[k] >= inner) throw std::invalid_argument("an order names inputs");
    }
    check_inner(inner, group);
    auto weight = std::make_unique<Weight>(format, features, inner);
    if (order) weight->order.assign(order, order + inner);
    weight->rotated = rotated;
    const int groups = inner / group;
    for (int n = 0; n < features; ++n) {
        for (int g = 0; g < groups; ++g) {
            uint8_t* block = weight->panel(n / kPanel) + static_cast<int64_t>(g) * layout(format).block_bytes;
            const int64_t at = static_cast<int64_t>(n) * groups + g;
            put_block_codes(block, layout(format), n % kPanel, codes + at * group);
            auto* numbers = reinterpret_cast<uint16_t*>(block + numbers_at(layout(format), 0));
            numbers[n % kPanel] = scales[at];
            if (low != Low::kMiddle) numbers[kPanel + n % kPanel] = lows[at];
        }
    }
    return weight;
}

std::unique_ptr<Weight> Weight::two_level(int bits, const uint8_t* codes, const int8_t* scales, const uint16_t* super_scales,
                                          const uint8_t* minima, const uint16_t* super_minima, int features, int inner) {
    const bool has_minima = bits < 6;
    const int group = has_minima ? 32 : 16;
    const Format format = format_of(bits, group, has_minima ? Low::kMinimum : Low::kMiddle, true);
    const FormatLayout at = layout(format);
    check_inner(inner, at.block);
    auto weight = std::make_unique<Weight>(format, features, inner);
    for (int n = 0; n < features; ++n) {
        for (int b = 0; b < inner / at.block; ++b) {
            uint8_t* block = weight->panel(n / kPanel) + static_cast<int64_t>(b) * at.block_bytes;
            const int64_t from = static_cast<int64_t>(n) * inner + b * at.block;
            put_block_codes(block, at, n % kPanel, codes + from);
            auto* halves = reinterpret_cast<uint16_t*>(block);
            halves[n % kPanel] = super_scales[from / at.block];
            if (has_minima) halves[kPanel + n % kPanel] = super_minima[from / at.block] ^ 0x8000;  // to be added
            for (int k = 0; k < at.block; k += group) {
                uint8_t* numbers = block + numbers_at(at, k) + n % kPanel;
                numbers[0] = static_cast<uint8_t>(scales[(from + k) / group]);
                if (has_minima) numbers[kPanel] = minima[(from + k) / group];
            }
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

namespace {

// Groups that have no neighbour in a block are followed by codes of zero.
std::unique_ptr<Weight> e2m1_weight(Format format, const uint8_t* codes, const uint8_t* scales, int features, int inner) {
    check_inner(inner, 32);
    const int block = layout(format).block, group = block / 2;
    auto weight = std::make_unique<Weight>(format, features, inner);
    for (int n = 0; n < features; ++n) {
        for (int k = 0; k < inner; k += group) {
            uint8_t* to = weight->panel(n / kPanel) + static_cast<int64_t>(k / block) * layout(format).block_bytes;
            const int64_t at = static_cast<int64_t>(n) * inner + k;
            put_pairs(to + k % block * (kPanel / 2), n % kPanel, codes + at, group);
            to[(group + k % block / group) * kPanel + n % kPanel] = scales[at / group];
        }
    }
    return weight;
}

}  // namespace

std::unique_ptr<Weight> Weight::nvfp4(const uint8_t* codes, const uint8_t* scales, float global, int features,
                                      int inner) {
    auto weight = e2m1_weight(Format::kNvfp4, codes, scales, features, inner);
    weight->scale.assign(static_cast<size_t>(features), global);
    return weight;
}

std::unique_ptr<Weight> Weight::mxfp4(const uint8_t* codes, const uint8_t* scales, int features, int inner) {
    return e2m1_weight(Format::kMxfp4, codes, scales, features, inner);
}

}  // namespace dayzero
