// AMX: Intel from Sapphire Rapids on. All but the products is as with AVX-512.

#include "amx.hpp"

#include <cstring>
#include <vector>

#include "linear.hpp"

namespace dayzero {

namespace {

Isa with_products(const char* name, Product (*product)(Format)) {
    Isa isa = *isa_avx512();
    isa.name = name;
    isa.product = product;
    return isa;
}

// Every tile is used: a block of 32 rows, one of 7, and K beyond one step.
constexpr int kRows = 39, kInner = 192;

class Numbers {
  public:
    uint32_t next() { return state_ = state_ * 1664525 + 1013904223; }
    float number() { return static_cast<float>(static_cast<int32_t>(next())) / 0x1p31f; }  // in [-1, 1]

  private:
    uint32_t state_ = 11;
};

// Half of the rows, and half of the features, are so small that their products come close to the least normal number.
std::vector<float> draw(int rows, float small, Numbers& numbers) {
    std::vector<float> values(static_cast<size_t>(rows * kInner));
    for (size_t i = 0; i < values.size(); ++i) values[i] = numbers.number() * (i / kInner % 2 ? small : 1.0f);
    return values;
}

std::unique_ptr<Weight> bf16_weight(Numbers& numbers) {
    std::vector<uint16_t> rows;
    for (const float value : draw(kPanel, 0x1p-70f, numbers)) {
        uint32_t bits;
        std::memcpy(&bits, &value, 4);
        rows.push_back(static_cast<uint16_t>(bits >> 16));
    }
    return Weight::bf16(rows.data(), kPanel, kInner);
}

std::unique_ptr<Weight> int8_weight(Numbers& numbers) {
    std::vector<uint8_t> codes(kPanel * kInner);
    for (auto& code : codes) code = static_cast<uint8_t>(numbers.next() >> 24);
    const std::vector<float> scales(kPanel, 0.01f);
    return Weight::per_channel(codes.data(), scales.data(), kPanel, kInner);
}

std::vector<float> product(const Isa& isa, const Weight& weight, const std::vector<float>& x) {
    const int64_t row_bytes = packed_row_bytes(weight.format, kInner);
    AlignedBytes packed;
    packed.reserve(kRows * row_bytes);
    for (int r = 0; r < kRows; ++r) {
        uint8_t* to = packed.data() + r * row_bytes;
        const int group = layout(weight.format).activation_group;
        if (group) {
            isa.pack_int8(x.data() + r * kInner, kInner, kInner, group, to);
        } else {
            isa.pack_bf16(x.data() + r * kInner, kInner, kInner, to);
        }
    }
    std::vector<float> out(kRows * kPanel);
    isa.product(weight.format)({.x = packed.data(),
                                .x_stride = row_bytes,
                                .rows = kRows,
                                .panel = weight.panel(0),
                                .inner = kInner,
                                .out = out.data(),
                                .out_stride = kPanel,
                                .columns = kPanel,
                                .bias = nullptr,
                                .scale = weight.scale.empty() ? nullptr : weight.scale.data()});
    return out;
}

bool differ(const Isa& tiles, const Isa& model, const Weight& weight, const std::vector<float>& x) {
    const auto a = product(tiles, weight, x), b = product(model, weight, x);
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) != 0;
}

}  // namespace

const char* difference(const Isa& tiles, const Isa& model) {
    Numbers numbers;
    const auto x = draw(kRows, 0x1p-56f, numbers);
    if (differ(tiles, model, *bf16_weight(numbers), x)) return "bfloat16 tiles whose bits are those of their model";
    if (differ(tiles, model, *int8_weight(numbers), x)) return "int8 tiles whose bits are those of their model";
    return nullptr;
}

const Isa* isa_amx() {
    static const Isa isa = with_products("amx", product_on_tiles);
    return &isa;
}

const Isa* isa_amx_model() {
    static const Isa isa = with_products("amx-model", product_on_modelled_tiles);
    return &isa;
}

}  // namespace dayzero
