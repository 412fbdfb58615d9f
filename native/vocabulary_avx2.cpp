#include "simd_avx2.hpp"
#include "vocabulary.hpp"

#include <algorithm>
#include <limits>

namespace dayzero::avx2 {

namespace {

#include "exp.inl"
#include "vocabulary.inl"

}  // namespace

extern const VocabularyPasses vocabulary_passes;
constexpr VocabularyPasses vocabulary_passes = {likeliest, at_least, weigh_below, count_above, top, forbid, exp64};

}  // namespace dayzero::avx2
