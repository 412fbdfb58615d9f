// Products in every format and many shapes against float64, over memory that ends where it should.

#include <algorithm>

#include "check.hpp"
#include "ops.hpp"

namespace dayzero::tests {

namespace {

constexpr double kE2M1[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

struct Drawn {
    std::unique_ptr<Weight> weight;
    std::vector<double> values;  // [N][K]
};

std::vector<uint8_t> codes_of(int count, int most, Random& random) {
    std::vector<uint8_t> codes(static_cast<size_t>(count));
    for (auto& code : codes) code = static_cast<uint8_t>(random.between(0, most));
    return codes;
}

Drawn draw_bf16(int n, int k, Random& random) {
    std::vector<uint16_t> rows(static_cast<size_t>(n) * k);
    Drawn drawn;
    for (auto& value : rows) {
        value = bf16_of(random.number());
        drawn.values.push_back(float_of(value));
    }
    drawn.weight = Weight::bf16(rows.data(), n, k);
    return drawn;
}

uint16_t half_of_whole(int number) {  // 0 to 15
    int exponent = 0;
    while (number >> (exponent + 1)) ++exponent;
    return number ? static_cast<uint16_t>((exponent + 15) << 10 | (number - (1 << exponent)) << (10 - exponent)) : 0;
}

Drawn draw_grouped(Format format, int n, int k, Random& random) {
    const FormatLayout at = layout(format);
    const auto codes = codes_of(n * k, (1 << at.bits) - 1, random);
    std::vector<uint16_t> scales(static_cast<size_t>(n) * k / at.block), lows(scales.size());
    const auto half = [&] {  // of either sign, up to 2
        return static_cast<uint16_t>(random.between(0, 0x3fff) | (random.chance() ? 0x8000 : 0));
    };
    for (auto& scale : scales) scale = half();
    for (auto& low : lows) low = at.low == Low::kZero ? half_of_whole(random.between(0, 15)) : half();
    Drawn drawn;
    for (size_t i = 0; i < codes.size(); ++i) {
        const double low = half_value(lows[i / at.block]), scale = half_value(scales[i / at.block]);
        const double zero = at.low == Low::kMiddle ? 1 << (at.bits - 1) : at.low == Low::kZero ? low : 0;
        drawn.values.push_back(scale * (codes[i] - zero) + (at.low == Low::kMinimum ? low : 0));
    }
    drawn.weight = Weight::grouped(at.bits, at.block, at.low, codes.data(), scales.data(), lows.data(), nullptr, n, k);
    return drawn;
}

Drawn draw_two_level(Format format, int n, int k, Random& random) {
    const FormatLayout at = layout(format);
    const int group = at.activation_group;
    const bool has_minima = at.low == Low::kMinimum;
    const auto codes = codes_of(n * k, (1 << at.bits) - 1, random), minima = codes_of(n * k / group, 127, random);
    std::vector<int8_t> scales(minima.size());
    for (auto& scale : scales) scale = static_cast<int8_t>(random.between(-128, 127));
    std::vector<uint16_t> super_scales(static_cast<size_t>(n) * k / 256), super_minima(super_scales.size());
    for (auto* halves : {&super_scales, &super_minima}) {
        for (auto& half : *halves) half = static_cast<uint16_t>(random.between(0, 0x3fff) | (random.chance() ? 0x8000 : 0));
    }
    Drawn drawn;
    for (size_t i = 0; i < codes.size(); ++i) {
        const double scale = half_value(super_scales[i / 256]) * scales[i / group];
        const double minimum = has_minima ? half_value(super_minima[i / 256]) * minima[i / group] : 0;
        drawn.values.push_back(scale * (codes[i] - (has_minima ? 0 : 32)) - minimum);
    }
    drawn.weight = Weight::two_level(at.bits, codes.data(), scales.data(), super_scales.data(),
                                     has_minima ? minima.data() : nullptr, super_minima.data(), n, k);
    return drawn;
}

Drawn draw_by_channel(int n, int k, Random& random) {
    const auto codes = codes_of(n * k, 255, random);
    std::vector<float> scales(static_cast<size_t>(n));
    for (auto& scale : scales) scale = random.number();
    Drawn drawn;
    for (size_t i = 0; i < codes.size(); ++i) {
        drawn.values.push_back(double{scales[i / static_cast<size_t>(k)]} * (codes[i] - 128));
    }
    drawn.weight = Weight::per_channel(codes.data(), scales.data(), n, k);
    return drawn;
}

Drawn draw_nvfp4(int n, int k, Random& random) {
    const auto codes = codes_of(n * k, 15, random), scales = codes_of(n * k / 16, 0x7e, random);
    const float global = 0.01f;
    Drawn drawn;
    for (size_t i = 0; i < codes.size(); ++i) {
        const int exponent = scales[i / 16] >> 3, mantissa = scales[i / 16] & 7;
        const double scale = exponent ? std::ldexp(8 + mantissa, exponent - 10) : std::ldexp(mantissa, -9);
        drawn.values.push_back((codes[i] & 8 ? -1 : 1) * kE2M1[codes[i] & 7] * scale * global);
    }
    drawn.weight = Weight::nvfp4(codes.data(), scales.data(), global, n, k);
    return drawn;
}

Drawn draw_mxfp4(int n, int k, Random& random) {
    const auto codes = codes_of(n * k, 15, random);
    std::vector<uint8_t> scales(codes.size() / 32);
    for (auto& scale : scales) scale = static_cast<uint8_t>(random.between(117, 137));
    Drawn drawn;
    for (size_t i = 0; i < codes.size(); ++i) {
        drawn.values.push_back((codes[i] & 8 ? -1 : 1) * std::ldexp(kE2M1[codes[i] & 7], scales[i / 32] - 127));
    }
    drawn.weight = Weight::mxfp4(codes.data(), scales.data(), n, k);
    return drawn;
}

Drawn draw(Format format, int n, int k, Random& random) {
    switch (format) {
        case Format::kBf16: return draw_bf16(n, k, random);
        case Format::kInt8Channel: return draw_by_channel(n, k, random);
        case Format::kNvfp4: return draw_nvfp4(n, k, random);
        case Format::kMxfp4: return draw_mxfp4(n, k, random);
        case Format::kQ4K:
        case Format::kQ5K:
        case Format::kQ6K: return draw_two_level(format, n, k, random);
        default: return draw_grouped(format, n, k, random);
    }
}

// A row of activations as a weight meets it.
std::vector<double> as_met(const float* x, int k, int group) {
    std::vector<double> met;
    for (int i = 0; i < k; ++i) {
        if (!group) {
            met.push_back(float_of(bf16_of(x[i])));
            continue;
        }
        float largest = 0;
        for (int j = i / group * group; j < std::min(k, (i / group + 1) * group); ++j) {
            largest = std::max(largest, std::fabs(x[j]));
        }
        const float factor = largest > 1e-30f ? 127.0f / largest : 0.0f;
        met.push_back(double{std::nearbyint(x[i] * factor)} * double{largest / 127.0f});
    }
    return met;
}

void check_product(const Isa& isa, ThreadPool& pool, Format format, Random& random) {
    const bool any_k = format == Format::kBf16 || format == Format::kInt8Channel;
    const int n = random.between(1, 100), block = format == Format::kMxfp4 ? 32 : layout(format).block;
    const int k = any_k ? random.between(1, 200) : block * random.between(1, std::max(1, 192 / block));
    const int rows = random.between(0, 40), before = random.between(0, 5), after = random.between(0, 5);
    const Drawn drawn = draw(format, n, k, random);
    std::vector<float> bias(static_cast<size_t>(before + n + after));
    for (auto& b : bias) b = random.number();
    const bool has_bias = random.chance();

    Program program(pool, isa);
    const int x = program.add_buffer(k), out = program.add_buffer(before + n + after);
    add_linear(program, x, *drawn.weight, has_bias ? bias.data() : nullptr, out, before, Rows::kTokens);
    const auto step = plain_step(rows);
    program.read(step.data(), static_cast<int64_t>(step.size()));
    fill(program.buffer(x), rows, random);
    fill(program.buffer(out), rows, random);
    const std::vector<float> untouched(program.buffer(out).row(0), program.buffer(out).row(rows));
    program.run();
    for (int r = 0; r < rows; ++r) {
        const auto met = as_met(program.buffer(x).row(r), k, layout(format).activation_group);
        for (int c = 0; c < before + n + after; ++c) {
            const float value = program.buffer(out).row(r)[c];
            if (c < before || c >= before + n) {
                CHECK(value == untouched[static_cast<size_t>(r) * (before + n + after) + c]);
                continue;
            }
            double sum = has_bias ? bias[static_cast<size_t>(c)] : 0, size = std::fabs(sum);
            for (int i = 0; i < k; ++i) {
                const double weight = drawn.values[static_cast<size_t>(c - before) * k + i];
                const double product = met[static_cast<size_t>(i)] * weight;
                sum += product;
                size += std::fabs(product);
            }
            CHECK(std::fabs(value - sum) <= 5e-6 * size + 1e-30);
        }
    }
}

}  // namespace

void test_linear(int rounds) {
    Random random(3);
    for (const Isa* isa : instruction_sets()) {
        for (int threads = 1; threads <= 3; ++threads) {
            ThreadPool pool(threads, 20);
            for (int round = 0; round < rounds; ++round) {
                check_product(*isa, pool, static_cast<Format>(round % kNumFormats), random);
            }
        }
    }
}

}  // namespace dayzero::tests
