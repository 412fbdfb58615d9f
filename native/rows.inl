// What every instruction set computes by the same code, over a vector F of kLanes float32: norms, rotation, gates,
// packing of activations, the KV cache and attention. Included once by the unit of an instruction set, inside an
// unnamed namespace of its own (no function here may become the linker's one copy for others), after
//
// simd_*.hpp     F, I (as many int32), kLanes and the operations on them
// products.inl   the products, by format
// kMaxLines      query lines that attention takes together
// kMixVectors    vectors of a value that `mix` adds up at once, for Lines lines: what registers hold
// score<Lines>   scores of Lines query lines against 64 keys: [Lines][64], not scaled; a chain in ascending D for each

constexpr int kTile = 16;  // tokens whose K lies together, in pairs of features: attention.hpp

void pack_bf16(const float* x, int k, int inner, uint8_t* out) {
    auto* at = reinterpret_cast<uint16_t*>(out);
    for (int i = 0; i < inner; i += kLanes) {
        store_bf16(at + i, i + kLanes <= k ? load(x + i) : load_first(x + i, k > i ? k - i : 0));
    }
}

// Lane i becomes lane i + lane (i ^ Distance) where it is the lower of the two, else their difference.
template <int Distance>
inline F butterfly(F x) {
    alignas(64) static constexpr auto kSigns = [] {
        std::array<float, kLanes> signs;
        for (int i = 0; i < kLanes; ++i) signs[i] = i & Distance ? -1.0f : 1.0f;
        return signs;
    }();
    return fma(x, load(kSigns.data()), swapped<Distance>(x));
}

template <int Distance = 1>
inline F hadamard_within(F x) {
    x = butterfly<Distance>(x);
    if constexpr (2 * Distance < kLanes) x = hadamard_within<2 * Distance>(x);
    return x;
}

// 32 floats times Sylvester's Hadamard matrix over sqrt(32), which is its own inverse.
inline void hadamard(const float* x, float* out) {
    constexpr int kVectors = 32 / kLanes;
    F v[kVectors];
    for (int i = 0; i < kVectors; ++i) v[i] = hadamard_within(load(x + i * kLanes));
    for (int distance = 1; distance < kVectors; distance *= 2) {
        for (int i = 0; i < kVectors; ++i) {
            if (i & distance) continue;
            const F low = v[i], high = v[i + distance];
            v[i] = add(low, high);
            v[i + distance] = sub(low, high);
        }
    }
    for (int i = 0; i < kVectors; ++i) store(out + i * kLanes, mul(v[i], set1(0.17677669529663687f)));
}

// One group of int8 activations: codes, the scale and the sum; what is beyond the first `valid` counts as 0.
inline void quantise(const float* x, int valid, int group, int8_t* codes, float* scale, int32_t* total) {
    F most = zero(), spoilt = zero();
    for (int i = 0; i < group; i += kLanes) {
        const F v = load_first(x + i, valid > i ? valid - i : 0);
        most = max(most, abs(v));
        spoilt = fma(v, zero(), spoilt);  // NaN if any is not finite
    }
    const float largest_one = largest(most);  // one too small to divide by counts as 0
    const F factor = set1(largest_one > 1e-30f ? 127.0f / largest_one : 0.0f);
    I sums = zero_ints();
    for (int i = 0; i < group; i += kLanes) {
        const I code = round(mul(load_first(x + i, valid > i ? valid - i : 0), factor));
        sums = add(sums, code);
        store_int8(codes + i, code);
    }
    *scale = largest_one / 127.0f + sum(spoilt);
    *total = sum(sums);
}

void pack_int8(const float* x, int k, int inner, int group, uint8_t* out) {
    auto* codes = reinterpret_cast<int8_t*>(out);
    auto* scales = reinterpret_cast<float*>(out + inner);
    auto* sums = reinterpret_cast<int32_t*>(scales + inner / group);
    for (int start = 0; start < inner; start += group) {
        quantise(x + start, k - start, group, codes + start, scales++, sums++);
    }
}

void pack_rotated_int8(const float* x, int inner, uint8_t* out) {
    auto* codes = reinterpret_cast<int8_t*>(out);
    auto* scales = reinterpret_cast<float*>(out + inner);
    auto* sums = reinterpret_cast<int32_t*>(scales + inner / 32);
    for (int start = 0; start < inner; start += 32) {
        alignas(64) float rotated[32];
        hadamard(x + start, rotated);
        quantise(rotated, 32, 32, codes + start, scales++, sums++);
    }
}

// Sum of squares in lanes, then of lanes: one order for a given width.
float mean_square(const float* x, int width) {
    F total = zero();
    int i = 0;
    for (; i + kLanes <= width; i += kLanes) total = fma(load(x + i), load(x + i), total);
    if (i < width) {
        const F v = load_first(x + i, width - i);
        total = fma(v, v, total);
    }
    return sum(total) / static_cast<float>(width);
}

void rms_norm(const float* x, const float* weight, float eps, int width, float* out) {
    const F scale = set1(1.0f / std::sqrt(mean_square(x, width) + eps));
    int i = 0;
    for (; i + kLanes <= width; i += kLanes) store(out + i, mul(mul(load(x + i), scale), load(weight + i)));
    if (i < width) {
        const int n = width - i;
        store_first(out + i, mul(mul(load_first(x + i, n), scale), load_first(weight + i, n)), n);
    }
}

void add_row(const float* x, const float* y, int width, float* out) {
    int i = 0;
    for (; i + kLanes <= width; i += kLanes) store(out + i, add(load(x + i), load(y + i)));
    for (; i < width; ++i) out[i] = x[i] + y[i];
}

void add_rms_norm(float* x, const float* residual, const float* y, const float* weight, float eps, int width,
                  float* out) {
    add_row(residual, y, width, x);
    rms_norm(x, weight, eps, width, out);
}

void rope(float* x, const float* cos, const float* signed_sin, int head_dim) {
    const int half = head_dim / 2;
    int i = 0;
    for (; i + kLanes <= half; i += kLanes) {
        const F a = load(x + i), b = load(x + half + i);
        store(x + i, fma(a, load(cos + i), mul(b, load(signed_sin + i))));
        store(x + half + i, fma(b, load(cos + half + i), mul(a, load(signed_sin + half + i))));
    }
    if (i < half) {
        const int n = half - i;
        const F a = load_first(x + i, n), b = load_first(x + half + i, n);
        store_first(x + i, fma(a, load_first(cos + i, n), mul(b, load_first(signed_sin + i, n))), n);
        store_first(x + half + i,
                    fma(b, load_first(cos + half + i, n), mul(a, load_first(signed_sin + half + i, n))), n);
    }
}

#include "exp.inl"

inline F silu(F x) { return div(x, add(set1(1.0f), exp(sub(zero(), x)))); }

// tanh(u) = 1 - 2 / (e^2u + 1), so that the tanh form of gelu is x * (1 - 1 / (e^2u + 1)).
inline F gelu(F x) {
    const F cubed = mul(mul(x, x), x);
    const F u2 = mul(set1(2.0f * 0.7978845608028654f), fma(set1(0.044715f), cubed, x));
    const F one = set1(1.0f);
    return mul(x, sub(one, div(one, add(exp(u2), one))));
}

template <F (*Activation)(F)>
void gated(const float* gate, const float* up, int width, float* out) {
    int i = 0;
    for (; i + kLanes <= width; i += kLanes) store(out + i, mul(Activation(load(gate + i)), load(up + i)));
    if (i < width) {
        const int n = width - i;
        store_first(out + i, mul(Activation(load_first(gate + i, n)), load_first(up + i, n)), n);
    }
}

void copy_bf16(const uint16_t* x, float scale, int width, float* out) {
    for (int i = 0; i < width; ++i) {
        const uint32_t bits = static_cast<uint32_t>(x[i]) << 16;
        float value;
        __builtin_memcpy(&value, &bits, sizeof value);
        out[i] = value * scale;
    }
}

#include "attention.inl"

constexpr Isa table(const char* name) {
    return {
        .name = name,
        .pack_bf16 = pack_bf16,
        .pack_int8 = pack_int8,
        .pack_rotated_int8 = pack_rotated_int8,
        .product = product,
        .add_rms_norm = add_rms_norm,
        .rms_norm = rms_norm,
        .rope = rope,
        .add = add_row,
        .silu_mul = gated<silu>,
        .gelu_mul = gated<gelu>,
        .copy_bf16 = copy_bf16,
        .write_kv = write_kv,
        .attend = attend,
        .attend_part = attend_part,
        .attend_parts = attend_parts,
        .vocabulary = &vocabulary_passes,
    };
}
