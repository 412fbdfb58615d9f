// The model of the tile instructions: Intel's manual, volume 2, LDTILECFG to TILEZERO and TDP*.

#include "tiles.hpp"

#include <immintrin.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace dayzero {

namespace {

void check(bool holds, const char* claim) {
    if (holds) return;
    std::fprintf(stderr, "tiles: not so: %s\n", claim);
    std::abort();
}

// Of the thread that has one: to nearest even, subnormals are 0 on the way in and on the way out, nothing is raised.
class FlushingToZero {
  public:
    FlushingToZero() : before_(_mm_getcsr()) { _mm_setcsr(0x9fc0); }
    ~FlushingToZero() { _mm_setcsr(before_); }

  private:
    const unsigned before_;
};

uint32_t word(const uint8_t* row, int index) {
    uint32_t value;
    std::memcpy(&value, row + 4 * index, 4);
    return value;
}

float even(uint32_t pair) {
    const uint32_t bits = pair << 16;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

float odd(uint32_t pair) { return even(pair >> 16); }

// One row of each; a call, so that no sum leaves the place where it is flushed.
__attribute__((noinline)) void add_row_bf16(float* c, const uint8_t* a, const uint8_t (*b)[kTileBytes], int pairs,
                                            int columns) {
    float evens[kTileBytes / 4] = {}, odds[kTileBytes / 4] = {};
    for (int k = 0; k < pairs; ++k) {
        const float first = even(word(a, k)), second = odd(word(a, k));
        for (int n = 0; n < kTileBytes / 4; ++n) {  // those beyond the columns are 0
            evens[n] = std::fma(first, even(word(b[k], n)), evens[n]);
            odds[n] = std::fma(second, odd(word(b[k], n)), odds[n]);
        }
    }
    for (int n = 0; n < columns; ++n) c[n] += evens[n] + odds[n];
}

}  // namespace

ModelledTiles::ModelledTiles(const TileShapes& shapes) : shapes_(shapes) {
    check(shapes.palette == 1 && shapes.start_row == 0, "the palette is 1, the first row 0");
    for (const uint8_t byte : shapes.reserved) check(byte == 0, "what is reserved is 0");
    for (int tile = 0; tile < 16; ++tile) {
        const int rows = shapes.rows[tile], bytes = shapes.bytes[tile];
        check(tile < kTiles ? rows <= kTileRows && bytes <= kTileBytes : rows == 0, "there are 8 tiles of 16 x 64");
        check((rows == 0) == (bytes == 0), "a tile has rows and bytes, or neither");
    }
}

void ModelledTiles::check_there(int tile) const {
    check(tile >= 0 && tile < kTiles && shapes_.rows[tile] > 0, "the tile is configured");
    check(shapes_.bytes[tile] % 4 == 0, "a row is of 32-bit elements");
}

void ModelledTiles::check_product(int c, int a, int b) const {
    for (const int tile : {c, a, b}) check_there(tile);
    check(c != a && c != b && a != b, "three tiles differ");
    check(shapes_.rows[c] == shapes_.rows[a], "c has as many rows as a");
    check(shapes_.bytes[c] == shapes_.bytes[b], "c has as many columns as b");
    check(shapes_.bytes[a] == 4 * shapes_.rows[b], "b has a row for every four bytes of a's");
}

void ModelledTiles::zero(int tile) {
    check_there(tile);
    tiles_[tile] = {};
}

void ModelledTiles::load(int tile, const void* from, int64_t stride) {
    check_there(tile);
    tiles_[tile] = {};
    for (int row = 0; row < shapes_.rows[tile]; ++row) {
        std::memcpy(tiles_[tile].bytes[row], static_cast<const uint8_t*>(from) + row * stride, shapes_.bytes[tile]);
    }
}

void ModelledTiles::store(int tile, void* to, int64_t stride) const {
    check_there(tile);
    for (int row = 0; row < shapes_.rows[tile]; ++row) {
        std::memcpy(static_cast<uint8_t*>(to) + row * stride, tiles_[tile].bytes[row], shapes_.bytes[tile]);
    }
}

void ModelledTiles::add_bf16(int c, int a, int b) {
    check_product(c, a, b);
    const FlushingToZero flushing;
    for (int row = 0; row < shapes_.rows[c]; ++row) {
        float sums[kTileBytes / 4];
        std::memcpy(sums, tiles_[c].bytes[row], kTileBytes);
        add_row_bf16(sums, tiles_[a].bytes[row], tiles_[b].bytes, shapes_.rows[b], shapes_.bytes[c] / 4);
        std::memcpy(tiles_[c].bytes[row], sums, kTileBytes);
    }
}

void ModelledTiles::add_int8(int c, int a, int b) {
    check_product(c, a, b);
    for (int row = 0; row < shapes_.rows[c]; ++row) {
        uint32_t sums[kTileBytes / 4];  // unsigned: the instruction goes round where int32 ends
        std::memcpy(sums, tiles_[c].bytes[row], kTileBytes);
        for (int k = 0; k < shapes_.bytes[a]; ++k) {
            const int code = static_cast<int8_t>(tiles_[a].bytes[row][k]);
            const uint8_t* codes = tiles_[b].bytes[k / 4] + k % 4;
            for (int n = 0; n < shapes_.bytes[c] / 4; ++n) sums[n] += static_cast<uint32_t>(code * codes[4 * n]);
        }
        std::memcpy(tiles_[c].bytes[row], sums, kTileBytes);
    }
}

}  // namespace dayzero
