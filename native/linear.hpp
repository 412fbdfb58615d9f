// A weight [N, K], packed into panels of 32 features for the inner loops.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "isa.hpp"
#include "program.hpp"

namespace dayzero {

class Weight {
  public:
    // rows [N][K] of bfloat16.
    static std::unique_ptr<Weight> bf16(const uint16_t* rows, int features, int inner);

    // w = scale * (code - offset) + minimum, by groups of 32 along K; K is a multiple of 32.
    // codes [N][K]: 0..15 with offset 8 (4 bits), 0..255 with offset 128; scales and minima float16 [N][K / 32].
    // With minima the offset is 0. They are null where a format has none.
    static std::unique_ptr<Weight> grouped(int bits, const uint8_t* codes, const uint16_t* scales,
                                           const uint16_t* minima, int features, int inner);

    // w = scale * (code - 128), one float32 scale for each feature.
    static std::unique_ptr<Weight> per_channel(const uint8_t* codes, const float* scales, int features, int inner);

    // w = e2m1(code) * scale * global, by groups of 16 (scales e4m3) along K; K is a multiple of 32.
    // codes [N][K], scales [N][K / 16].
    static std::unique_ptr<Weight> nvfp4(const uint8_t* codes, const uint8_t* scales, float global, int features,
                                         int inner);

    Weight(Format f, int n, int k);

    const Format format;
    const int features;      // N
    const int inner;         // K
    const int padded_inner;  // K, up to a whole group
    const int64_t panel_bytes;
    AlignedBytes panels;
    std::vector<float> scale;  // [N], or empty: applied to the sums

    int num_panels() const { return (features + kPanel - 1) / kPanel; }
    uint8_t* panel(int index) const { return panels.data() + index * panel_bytes; }
    int64_t bytes() const { return panels.size() + static_cast<int64_t>(scale.size()) * 4; }
};

}  // namespace dayzero
