// What the products of every instruction set share. Included once by their unit, inside a namespace of its own, after
// simd_*.hpp.

constexpr int kPrefetchBytes = 4096;  // ahead in a panel, and into the next: hardware streams alone stop short

template <int Bytes>
inline void prefetch_ahead(const PanelCall& call, const uint8_t* p) {
    p += kPrefetchBytes;
    if (p >= call.end) p += call.leap;
    for (int i = 0; i < Bytes; i += 64) _mm_prefetch(reinterpret_cast<const char*>(p + i), _MM_HINT_T0);
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

template <typename Body, int... Steps>
inline void each(std::integer_sequence<int, Steps...>, Body body) {
    (body(std::integral_constant<int, Steps>{}), ...);
}

// Body of a constant 0, ..., N - 1.
template <int N, typename Body>
inline void each(Body body) {
    each(std::make_integer_sequence<int, N>{}, body);
}

// Codes k = 4 * Step to 4 * Step + 3 of 32, a byte each: low nibbles by pairs of steps, and for more than 4 bits the high
// bits of all that a byte has room for.
template <int Bits, int Step>
inline I four_codes(const uint8_t* w) {
    if constexpr (Bits == 8) return load_bytes(w + Step * 128);
    const I both = load_bytes(w + Step / 2 * 128);
    const I low = bits_of(Step % 2 ? shifted_right<4>(both) : both, 15);
    if constexpr (Bits == 4) {
        return low;
    } else {
        constexpr int kHigh = Bits - 4, kSteps = 8 / kHigh, kRight = Step % kSteps * kHigh - 4;
        const I all = load_bytes(w + code_bytes(4) + Step / kSteps * 128);
        return either(low, bits_of(shifted_right<kRight>(all), ((1 << kHigh) - 1) << 4));
    }
}

// Scale and low of a vector of features in the group that k of a block is in.
template <Format kFormat>
struct Numbers {
    F scale, low;

    Numbers(const uint8_t* block, int k, int vector) : low(zero()) {
        constexpr FormatLayout at = layout(kFormat);
        const uint8_t* numbers = block + numbers_at(at, k);
        const uint8_t* halves = (at.two_level ? block : numbers) + vector * kLanes * 2;
        scale = half_floats(halves);
        if constexpr (at.low != Low::kMiddle) low = half_floats(halves + 2 * kPanel);
        if constexpr (at.two_level) {  // exact: 11 bits by 8
            scale = mul(scale, byte_floats(numbers + vector * kLanes));
            if constexpr (at.low != Low::kMiddle) low = mul(low, byte_floats(numbers + kPanel + vector * kLanes));
        }
    }
};

// Ahead of every 32 codes of a block, what fills a share of the block.
template <Format kFormat>
inline void prefetch_share(const PanelCall& call, const uint8_t* p) {
    constexpr FormatLayout at = layout(kFormat);
    prefetch_ahead<(at.block_bytes * 32 / at.block + 63) / 64 * 64>(call, p);
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
