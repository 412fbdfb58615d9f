// What the products of every instruction set share. Included once by their unit, inside a namespace of its own, after
// simd_*.hpp.

constexpr int kPrefetchBytes = 4096;  // ahead in a panel, and into the next: hardware streams alone stop short

template <int Bytes>
inline void prefetch_ahead(const uint8_t* p) {
    for (int i = 0; i < Bytes; i += 64) {
        _mm_prefetch(reinterpret_cast<const char*>(p + kPrefetchBytes + i), _MM_HINT_T0);
    }
}

// A packed row of int8 activations: K codes, then the scale and the sum of each group.
struct Int8Row {
    const int8_t* codes;
    const float* scales;
    const int32_t* sums;

    Int8Row(const uint8_t* row, int inner, int group)
        : codes(reinterpret_cast<const int8_t*>(row)), scales(reinterpret_cast<const float*>(row + inner)),
          sums(reinterpret_cast<const int32_t*>(row + inner) + inner / group) {}
};

// Sums of a tile to memory, its vectors being those of the panel from `vector` on: scaled, with bias, the first
// `columns` of the panel's 32.
template <int Rows, int Vectors>
void finish(const PanelCall& call, int row, int vector, const F (&sums)[Rows][Vectors]) {
    for (int v = 0; v < Vectors; ++v) {
        const int at = (vector + v) * kLanes, columns = call.columns - at;
        if (columns <= 0) return;
        const F bias = call.bias ? load_first(call.bias + at, columns) : zero();
        const F scale = call.scale ? load_first(call.scale + at, columns) : set1(1.0f);
        for (int r = 0; r < Rows; ++r) {
            store_first(call.out + (row + r) * call.out_stride + at, fma(sums[r][v], scale, bias), columns);
        }
    }
}

// Where the scales of a block of codes by group lie: 32 float16, and after them 32 zeros or minima.
constexpr int scales_at(const FormatLayout& at) { return at.block * kPanel * at.bits / 8; }

// Ahead of every 32 codes of a block, what fills a share of the block.
template <Format kFormat>
inline void prefetch_share(const uint8_t* p) {
    constexpr FormatLayout at = layout(kFormat);
    prefetch_ahead<(at.block_bytes * 32 / at.block + 63) / 64 * 64>(p);
}

// A sum and what it gains by a dot product of a group's codes with activations, which is exact: their scale and total,
// and the numbers of the group.
template <Low kLow>
inline F gained(F sum, I dot, F activation_scale, F activation_total, F scale, F low) {
    F exact = floats(dot);
    if constexpr (kLow == Low::kZero) exact = fnma(low, activation_total, exact);
    sum = fma(exact, mul(scale, activation_scale), sum);
    if constexpr (kLow == Low::kMinimum) sum = fma(low, mul(activation_scale, activation_total), sum);
    return sum;
}

using RowsOf = void (*)(const PanelCall&, int);

// Blocks of nearly equal height, none above Tallest.
template <int Tallest>
void in_blocks(const PanelCall& call, const RowsOf (&rows_of)[Tallest]) {
    const int blocks = (call.rows + Tallest - 1) / Tallest;
    for (int block = 0, row = 0; block < blocks; ++block) {
        const int height = (call.rows - row + blocks - block - 1) / (blocks - block);
        rows_of[height - 1](call, row);
        row += height;
    }
}
