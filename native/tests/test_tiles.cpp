// Tiles: the model as it is documented, products over it, and the code for the instructions themselves. Where the
// processor lacks them, each traps and is done by the model instead: what runs is the machine code, tile for tile.

#include <csignal>
#include <optional>
#include <ucontext.h>

#include "amx.hpp"
#include "check.hpp"
#include "linear.hpp"
#include "tiles.hpp"

namespace dayzero::tests {

namespace {

// -- the model ---------------------------------------------------------------------------------------------------------

// One sum: a row of up to 32 numbers against a column of as many, from `start` on.
float sum_bf16(const std::vector<float>& row, const std::vector<float>& column, float start = 0) {
    const int pairs = static_cast<int>(row.size()) / 2;
    TileShapes shapes;
    shapes.set(0, 1, 4);
    shapes.set(1, 1, 4 * pairs);
    shapes.set(2, pairs, 4);
    ModelledTiles tiles(shapes);
    std::vector<uint16_t> a, b;
    for (const float value : row) a.push_back(bf16_of(value));
    for (const float value : column) b.push_back(bf16_of(value));
    tiles.load(0, &start, 4);
    tiles.load(1, a.data(), 4 * pairs);
    tiles.load(2, b.data(), 4);
    tiles.add_bf16(0, 1, 2);
    float sum;
    tiles.store(0, &sum, 4);
    return sum;
}

void test_model() {
    // Odd and even k are chains of their own, met in the end.
    CHECK(sum_bf16({0x1p24f, 1, -0x1p24f, 1}, {1, 1, 1, 1}) == 2);
    // Each is one in ascending k: the 1 is lost beside 2^24, in this order only.
    CHECK(sum_bf16({0x1p24f, 0, 1, 0, -0x1p24f, 0}, {1, 1, 1, 1, 1, 1}) == 0);
    CHECK(sum_bf16({0x1p24f, 0, -0x1p24f, 0, 1, 0}, {1, 1, 1, 1, 1, 1}) == 1);
    // What was there comes last.
    CHECK(sum_bf16({0.5f, 0.5f}, {1, 1}, 0x1p24f) == 0x1p24f);
    CHECK(sum_bf16({1, 1}, {1, 1}, 0x1p24f) == 0x1p24f + 2);
    // A product is not rounded before it is added.
    CHECK(sum_bf16({-0x1p-20f, 0, 1 + 0x1p-7f, 0}, {1, 0, 1 - 0x1p-7f, 0}) == 1 - 0x1p-14f - 0x1p-20f);
    // Subnormals are 0: of what is multiplied, of sums, of what was there.
    CHECK(sum_bf16({0x1p-127f, 0}, {0x1p100f, 0}) == 0);
    CHECK(sum_bf16({0x1p-70f, 0}, {0x1p-57f, 0}) == 0);
    CHECK(sum_bf16({0, 0}, {0, 0}, 0x1p-127f) == 0);
    CHECK(sum_bf16({0x1p-63f, 0}, {0x1p-63f, 0}) == 0x1p-126f);
    CHECK(0x1p-127f * sum_bf16({1, 0}, {1, 0}) == 0x1p-127f);  // and are themselves again afterwards
    CHECK(std::isnan(sum_bf16({INFINITY, -INFINITY}, {1, 1})));
}

// Every code of a against every code of b, the largest sums among them.
void test_model_of_int8(Random& random) {
    TileShapes shapes;
    shapes.set(0, 3, 20);
    shapes.set(1, 3, 64);
    shapes.set(2, 16, 20);
    ModelledTiles tiles(shapes);
    std::vector<int8_t> a(3 * 64, -128);
    std::vector<uint8_t> b(64 * 5, 255);
    for (int round = 0; round < 100; ++round) {
        int32_t sums[3][5], expected[3][5];
        for (int r = 0; r < 3; ++r) {
            for (int n = 0; n < 5; ++n) {
                sums[r][n] = expected[r][n] = round == 0 ? -(1 << 30) : random.between(-1000, 1000);
                for (int k = 0; k < 64; ++k) expected[r][n] += a[r * 64 + k] * b[(k / 4 * 5 + n) * 4 + k % 4];
            }
        }
        tiles.load(0, sums, sizeof *sums);
        tiles.load(1, a.data(), 64);
        tiles.load(2, b.data(), 20);
        tiles.add_int8(0, 1, 2);
        tiles.store(0, sums, sizeof *sums);
        CHECK(std::memcmp(sums, expected, sizeof sums) == 0);
        for (auto& code : a) code = static_cast<int8_t>(random.between(-128, 127));
        for (auto& code : b) code = static_cast<uint8_t>(random.between(0, 255));
    }
}

// -- products ----------------------------------------------------------------------------------------------------------

struct Drawn {
    std::unique_ptr<Weight> weight;
    std::vector<float> x, bias;
    int rows;
};

Drawn draw(Format format, int rows, Random& random) {
    const FormatLayout at = layout(format);
    const int n = random.between(1, kPanel), k = at.block * random.between(1, 640 / at.block);
    std::vector<uint8_t> codes(static_cast<size_t>(n) * k), scales(codes.size() / 16);
    std::vector<uint16_t> halves(codes.size() / 32), dense(codes.size());
    const int bits = format == Format::kInt8Channel ? 8 : at.bits ? at.bits : 4;
    for (auto& code : codes) code = static_cast<uint8_t>(random.between(0, (1 << bits) - 1));
    for (auto& scale : scales) scale = static_cast<uint8_t>(random.between(0, 0x7e));
    for (auto& half : halves) half = static_cast<uint16_t>(random.between(0, 0x3fff) | (random.chance() ? 0x8000 : 0));
    for (auto& value : dense) value = bf16_of(random.number());
    std::vector<float> by_channel(static_cast<size_t>(n));
    for (auto& scale : by_channel) scale = random.number();
    Drawn drawn{.weight = {}, .x = std::vector<float>(static_cast<size_t>(rows) * k), .bias = by_channel, .rows = rows};
    for (auto& value : drawn.x) value = random.number();
    switch (format) {
        case Format::kBf16: drawn.weight = Weight::bf16(dense.data(), n, k); break;
        case Format::kInt8Channel: drawn.weight = Weight::per_channel(codes.data(), by_channel.data(), n, k); break;
        case Format::kNvfp4: drawn.weight = Weight::nvfp4(codes.data(), scales.data(), 0.01f, n, k); break;
        case Format::kMxfp4: drawn.weight = Weight::mxfp4(codes.data(), scales.data(), n, k); break;
        case Format::kQ4K:
        case Format::kQ5K:
        case Format::kQ6K:
            drawn.weight = Weight::two_level(at.bits, codes.data(), reinterpret_cast<int8_t*>(scales.data()), halves.data(),
                                             scales.data(), halves.data(), n, k);
            break;
        default:
            drawn.weight = Weight::grouped(at.bits, at.block, at.low, codes.data(), halves.data(), halves.data(), nullptr,
                                           n, k);
    }
    return drawn;
}

std::vector<float> product(const Isa& isa, const Drawn& drawn) {
    const Weight& weight = *drawn.weight;
    const int64_t row_bytes = packed_row_bytes(weight.format, weight.padded_inner);
    AlignedBytes packed;
    packed.reserve(drawn.rows * row_bytes);
    for (int r = 0; r < drawn.rows; ++r) {
        const float* x = drawn.x.data() + static_cast<int64_t>(r) * weight.inner;
        const int group = layout(weight.format).activation_group;
        if (group) {
            isa.pack_int8(x, weight.inner, weight.padded_inner, group, packed.data() + r * row_bytes);
        } else {
            isa.pack_bf16(x, weight.inner, weight.padded_inner, packed.data() + r * row_bytes);
        }
    }
    std::vector<float> out(static_cast<size_t>(drawn.rows) * weight.features);
    isa.product(weight.format)({.x = packed.data(),
                                .x_stride = row_bytes,
                                .rows = drawn.rows,
                                .panel = weight.panel(0),
                                .inner = weight.padded_inner,
                                .out = out.data(),
                                .out_stride = weight.features,
                                .columns = weight.features,
                                .bias = drawn.bias.data(),
                                .scale = weight.scale.empty() ? nullptr : weight.scale.data()});
    return out;
}

bool same(const Isa& a, const Isa& b, const Drawn& drawn) {
    const auto one = product(a, drawn), other = product(b, drawn);
    return std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0;
}

// Integers: in tiles as in vectors, at every number of rows that a last block can have.
void test_products_of_integers(Random& random) {
    for (int f = 0; f < kNumFormats; ++f) {
        const Format format = static_cast<Format>(f);
        if (layout(format).activation_group == 0) continue;
        for (int rows = 1; rows <= 70; ++rows) CHECK(same(*isa_amx_model(), *isa_avx512(), draw(format, rows, random)));
    }
}

// A processor whose tiles are not as documented is found out.
void test_difference() {
    CHECK(difference(*isa_amx_model(), *isa_amx_model()) == nullptr);
    Isa other = *isa_amx_model();
    other.product = [](Format format) {  // right, in another order
        return (format == Format::kBf16 ? isa_avx512() : isa_amx_model())->product(format);
    };
    CHECK(std::strstr(difference(other, *isa_amx_model()), "bfloat16"));
    other.product = [](Format format) -> Product {
        if (format != Format::kInt8Channel) return isa_amx_model()->product(format);
        return [](const PanelCall& call) {
            isa_amx_model()->product(Format::kInt8Channel)(call);
            call.out[call.out_stride * 38 + 31] += 1;
        };
    };
    CHECK(std::strstr(difference(other, *isa_amx_model()), "int8"));
}

// -- the instructions --------------------------------------------------------------------------------------------------

std::optional<ModelledTiles> registers;  // of the one thread that traps
int trapped = 0;

constexpr int kGeneral[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                              REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

// Base, displacement and the index, which for tiles is a stride.
struct Operand {
    uint8_t* base;
    int64_t stride;
    int bytes;  // of code
};

Operand operand(const uint8_t* modrm, int extended_base, int extended_index, const greg_t* general) {
    const int mode = modrm[0] >> 6, bytes = mode == 0 ? 0 : mode == 1 ? 1 : 4;
    const bool has_sib = (modrm[0] & 7) == 4;
    const int base = (has_sib ? modrm[1] : modrm[0]) & 7;
    CHECK(mode < 3 && !(mode == 0 && base == 5));
    int32_t displacement = 0;
    if (mode == 1) displacement = static_cast<int8_t>(modrm[1 + has_sib]);
    if (mode == 2) std::memcpy(&displacement, modrm + 1 + has_sib, 4);
    const int index = has_sib ? (modrm[1] >> 3 & 7) | extended_index : 4;
    const int64_t stride = index == 4 ? 0 : static_cast<int64_t>(general[kGeneral[index]]) << (modrm[1] >> 6);
    return {reinterpret_cast<uint8_t*>(general[kGeneral[base | extended_base]]) + displacement, stride, 1 + has_sib + bytes};
}

// A VEX instruction of three bytes, map 0F38, W0, L0: C4, RXB and the map, W vvvv L pp, opcode, ModRM.
void trap(int, siginfo_t*, void* context) {
    greg_t* general = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    const auto* code = reinterpret_cast<const uint8_t*>(general[REG_RIP]);
    CHECK(code[0] == 0xc4 && (code[1] & 0x1f) == 2 && (code[2] & 0x84) == 0);
    enum { kPlain, k66, kF3, kF2 };  // pp
    const int prefix = code[2] & 3, opcode = code[3], vvvv = ~code[2] >> 3 & 15;
    const uint8_t* modrm = code + 4;
    const int reg = modrm[0] >> 3 & 7, rm = modrm[0] & 7;
    const bool is_memory = modrm[0] >> 6 != 3;
    Operand at{nullptr, 0, 1};
    if (is_memory) at = operand(modrm, code[1] & 0x20 ? 0 : 8, code[1] & 0x40 ? 0 : 8, general);
    if (opcode == 0x49 && prefix == kPlain && is_memory) {
        registers.emplace(*reinterpret_cast<const TileShapes*>(at.base));
    } else if (opcode == 0x49 && prefix == kPlain) {
        registers.reset();
    } else {
        CHECK(registers.has_value());
        if (opcode == 0x49 && prefix == kF2) {
            registers->zero(reg);
        } else if (opcode == 0x4b && prefix == kF2) {
            registers->load(reg, at.base, at.stride);
        } else if (opcode == 0x4b && prefix == kF3) {
            registers->store(reg, at.base, at.stride);
        } else if (opcode == 0x5c && prefix == kF3) {
            registers->add_bf16(reg, rm, vvvv);
        } else if (opcode == 0x5e && prefix == kF3) {
            registers->add_int8(reg, rm, vvvv);
        } else {
            CHECK(!"one of the instructions that products use");
        }
    }
    general[REG_RIP] += 4 + at.bytes;
    ++trapped;
}

void test_instructions(int rounds, Random& random) {
    struct sigaction ours = {}, before;
    ours.sa_sigaction = trap;
    ours.sa_flags = SA_SIGINFO;
    const bool are_there = missing_for_amx() == nullptr;
    if (!are_there) CHECK(sigaction(SIGILL, &ours, &before) == 0);
    for (int round = 0; round < rounds; ++round) {
        const int rows = random.one_of<int>({1, 7, 15, 16, 17, 31, 32, 33, 50, 129});
        CHECK(same(*isa_amx(), *isa_amx_model(), draw(static_cast<Format>(round % kNumFormats), rows, random)));
        CHECK(!registers);  // released
    }
    if (are_there) return;
    CHECK(trapped > 0);
    CHECK(difference(*isa_amx(), *isa_amx_model()) == nullptr);
    CHECK(sigaction(SIGILL, &before, nullptr) == 0);
}

}  // namespace

void test_tiles(int rounds) {
    if (missing_for_avx512()) return;
    Random random(6);
    test_model();
    test_model_of_int8(random);
    test_products_of_integers(random);
    test_difference();
    test_instructions(rounds / 4, random);
}

}  // namespace dayzero::tests
