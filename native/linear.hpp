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

    // Codes of 4, 5 or 8 bits by groups along K, of which K is a multiple; what they mean: Low.
    // codes [N][K], one a byte; scales and lows (zeros or minima; null for kMiddle) float16 [N][K / group].
    // order [K] says which input each column of codes is for; null: they are in order.
    // `rotated`: every 32 weights along K were turned by Sylvester's Hadamard matrix over sqrt(32), and activations
    // are before they meet them.
    static std::unique_ptr<Weight> grouped(int bits, int group, Low low, const uint8_t* codes, const uint16_t* scales,
                                           const uint16_t* lows, const int32_t* order, int features, int inner,
                                           bool rotated = false);

    // w = super_scale * scale * (code - 32), 6 bits, groups of 16; or super_scale * scale * code - super_minimum *
    // minimum, 4 or 5 bits, groups of 32. K is a multiple of 256.
    // codes [N][K], scales and minima (up to 127; null with 6 bits) [N][K / group], the other two float16 [N][K / 256].
    static std::unique_ptr<Weight> two_level(int bits, const uint8_t* codes, const int8_t* scales,
                                             const uint16_t* super_scales, const uint8_t* minima,
                                             const uint16_t* super_minima, int features, int inner);

    // w = scale * (code - 128), one float32 scale for each feature.
    static std::unique_ptr<Weight> per_channel(const uint8_t* codes, const float* scales, int features, int inner);

    // w = e2m1(code) * scale * global, by groups of 16 (scales e4m3) along K; K is a multiple of 32.
    // codes [N][K], scales [N][K / 16].
    static std::unique_ptr<Weight> nvfp4(const uint8_t* codes, const uint8_t* scales, float global, int features,
                                         int inner);

    // w = e2m1(code) * 2^(scale - 127), by groups of 32 along K, of which K is a multiple.
    // codes [N][K], scales [N][K / 32].
    static std::unique_ptr<Weight> mxfp4(const uint8_t* codes, const uint8_t* scales, int features, int inner);

    Weight(Format f, int n, int k);

    const Format format;
    const int features;      // N
    const int inner;         // K
    const int padded_inner;  // K, up to a whole block
    const int64_t panel_bytes;
    AlignedBytes panels;
    std::vector<float> scale;    // [N], or empty: applied to the sums
    std::vector<int32_t> order;  // [K], or empty: the input that each place along K is for
    bool rotated = false;

    int num_panels() const { return (features + kPanel - 1) / kPanel; }
    uint8_t* panel(int index) const { return panels.data() + index * panel_bytes; }
    int64_t bytes() const { return panels.size() + static_cast<int64_t>(scale.size()) * 4; }
};

}  // namespace dayzero
