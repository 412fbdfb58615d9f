// The tile instructions of AMX that products need, twice: those of the processor, and a model in plain C++ of what Intel
// documents, for processors without. Kernels are templates over the two. A tile has up to 16 rows of up to 64 bytes.
//
// Both are configured where they are made and released where they end, so that no tile outlives a product.
#pragma once

#include <cstdint>
#include <type_traits>

namespace dayzero {

constexpr int kTiles = 8, kTileRows = 16, kTileBytes = 64;

template <int number>
using Tile = std::integral_constant<int, number>;  // of the instruction: known when it is compiled

// What LDTILECFG reads. A tile that is not set is not there.
struct alignas(64) TileShapes {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t bytes[16] = {};  // of a row
    uint8_t rows[16] = {};

    void set(int tile, int num_rows, int row_bytes) {
        rows[tile] = static_cast<uint8_t>(num_rows);
        bytes[tile] = static_cast<uint16_t>(row_bytes);
    }
};
static_assert(sizeof(TileShapes) == 64);

// Assembly rather than intrinsics: GCC 12's take no number from a template, tell the compiler nothing of the memory that
// a tile is loaded from, and of that which a configuration is, eight bytes only.
class HardwareTiles {
  public:
    explicit HardwareTiles(const TileShapes& shapes) { __asm__ volatile("ldtilecfg %0" ::"m"(shapes)); }
    ~HardwareTiles() { __asm__ volatile("tilerelease"); }
    HardwareTiles(const HardwareTiles&) = delete;
    HardwareTiles& operator=(const HardwareTiles&) = delete;

    template <int t>
    void zero(Tile<t>) {
        __asm__ volatile("tilezero %%tmm%c0" ::"i"(t));
    }
    template <int t>
    void load(Tile<t>, const void* from, int64_t stride) {
        __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(t) : "memory");
    }
    template <int t>
    void store(Tile<t>, void* to, int64_t stride) {
        __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(t) : "memory");
    }
    template <int c, int a, int b>
    void add_bf16(Tile<c>, Tile<a>, Tile<b>) {
        __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
    }
    template <int c, int a, int b>
    void add_int8(Tile<c>, Tile<a>, Tile<b>) {
        __asm__ volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
    }
};

// The same as data. What the processor would refuse ends the program, with the reason.
class ModelledTiles {
  public:
    explicit ModelledTiles(const TileShapes& shapes);
    ModelledTiles(const ModelledTiles&) = delete;
    ModelledTiles& operator=(const ModelledTiles&) = delete;

    void zero(int tile);
    void load(int tile, const void* from, int64_t stride);
    void store(int tile, void* to, int64_t stride) const;
    // c += a * b, float32 from pairs of bfloat16. The products with even k and those with odd k are two chains of fused
    // additions from 0 in ascending order; the sum of the two is added to c. To nearest even; what is subnormal is 0.
    void add_bf16(int c, int a, int b);
    // c += a * b, int32 from fours of int8 in a and uint8 in b.
    void add_int8(int c, int a, int b);

  private:
    struct Registers {
        alignas(64) uint8_t bytes[kTileRows][kTileBytes];
    };

    void check_there(int tile) const;
    void check_product(int c, int a, int b) const;

    const TileShapes shapes_;
    Registers tiles_[kTiles] = {};
};

}  // namespace dayzero
