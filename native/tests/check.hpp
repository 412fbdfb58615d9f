// What the C++ tests share: a check that ends the run, random numbers, and numbers in fewer bits.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "isa.hpp"
#include "program.hpp"

#define CHECK(claim)                                                               \
    do {                                                                           \
        if (!(claim)) {                                                            \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #claim); \
            std::abort();                                                          \
        }                                                                          \
    } while (false)

namespace dayzero::tests {

class Random {
  public:
    explicit Random(uint64_t seed) : engine_(seed) {}

    int between(int least, int most) {
        return least + static_cast<int>(engine_() % (static_cast<uint64_t>(most) - least + 1));
    }
    bool chance() { return engine_() & 1; }
    float number() { return static_cast<float>(engine_() % 2000001) / 1e6f - 1.0f; }  // in [-1, 1]
    template <typename T>
    T one_of(const std::vector<T>& choices) {
        return choices[static_cast<size_t>(between(0, static_cast<int>(choices.size()) - 1))];
    }
    template <typename T>
    void shuffle(std::vector<T>& items) {
        for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[engine_() % i]);
    }

  private:
    std::mt19937_64 engine_;
};

// Of those that there is code for, what this processor can run.
inline std::vector<const Isa*> instruction_sets() {
    std::vector<const Isa*> sets;
    if (!missing_for_amx()) sets.push_back(isa_amx());
    if (!missing_for_avx512()) sets.insert(sets.end(), {isa_avx512(), isa_amx_model()});
    if (!missing_for_avx2()) sets.push_back(isa_avx2());
    return sets;
}

inline float float_of(uint16_t bf16) {
    const uint32_t bits = static_cast<uint32_t>(bf16) << 16;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

// To nearest, ties to even.
inline uint16_t bf16_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// A float16 of moderate size.
inline double half_value(uint16_t half) {
    const int exponent = half >> 10 & 31, mantissa = half & 1023;
    const double size = exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24);
    return half & 0x8000 ? -size : size;
}

inline constexpr uint16_t kNanBf16 = 0x7fc0;

// The flat form of a step; each request's table is a row of `tables`, of one cache group if there are any.
struct Request {
    int first_position, rows;
    std::vector<int32_t> table;
};

std::vector<int32_t> flat_step(const std::vector<Request>& requests, const std::vector<int32_t>& tokens,
                               const std::vector<int32_t>& sample_at, int block_size);

// Rows of a step without KV.
std::vector<int32_t> plain_step(int rows);

void fill(Buffer& buffer, int rows, Random& random);

void test_threads(int rounds);
void test_step(int rounds);
void test_linear(int rounds);
void test_tiles(int rounds);
void test_attention(int rounds);
void test_program(int rounds);
void test_vocabulary(int rounds);

}  // namespace dayzero::tests
