// A step is read or refused, whatever numbers come.

#include <algorithm>
#include <climits>

#include "check.hpp"
#include "step.hpp"

namespace dayzero::tests {

void test_step(int rounds) {
    Random random(2);
    int refused = 0;
    const int count = rounds * 50;
    for (int round = 0; round < count; ++round) {
        std::vector<Request> requests;
        std::vector<int32_t> tokens, samples;
        for (int r = random.between(0, 4); r > 0; --r) {
            const Request request{random.between(0, 40), random.between(0, 5), {1, 2, 3}};
            tokens.resize(tokens.size() + static_cast<size_t>(request.rows));
            requests.push_back(request);
        }
        for (int i = tokens.empty() ? 0 : random.between(0, 3); i > 0; --i) {
            samples.push_back(random.between(0, static_cast<int>(tokens.size()) - 1));
        }
        std::vector<int32_t> flat = flat_step(requests, tokens, samples, 16);
        if (random.chance()) {  // sections, of which trees may have one row at most
            const int32_t groups = flat[4];
            for (int section = 1; section <= 3; ++section) {
                if (random.chance()) continue;
                flat.push_back(section);
                const int count = section == 3 ? static_cast<int>(requests.size()) : groups * static_cast<int>(requests.size());
                int tree_rows = 0;
                for (int i = 0; i < count; ++i) {
                    flat.push_back(random.one_of<int32_t>({0, 0, 0, 1}));
                    tree_rows += flat.back();
                }
                for (int i = 0; section == 3 && i < tree_rows; ++i) flat.insert(flat.end(), {1, 0});
            }
        }
        const int changes = random.between(0, 3);
        for (int i = 0; i < changes; ++i) {
            flat[static_cast<size_t>(random.between(0, static_cast<int>(flat.size()) - 1))] =
                random.one_of<int32_t>({random.between(-3, 20), INT_MAX, INT_MIN, 1 << 16, -1});
        }
        if (random.between(0, 9) == 0) {
            flat.resize(static_cast<size_t>(random.between(0, static_cast<int>(flat.size()))));
        }
        flat.shrink_to_fit();
        Step step;
        try {
            step.read(flat.data(), static_cast<int64_t>(flat.size()));
        } catch (const std::invalid_argument&) {
            ++refused;
            continue;
        }
        CHECK(static_cast<int>(step.tokens.size()) == step.num_tokens);
        for (const int row : step.sample_at) CHECK(row >= 0 && row < step.num_tokens);
        CHECK(step.trees.empty() || static_cast<int>(step.trees.size()) == step.num_tokens);
        for (int row = 0; row < step.num_tokens; ++row) {
            CHECK(step.positions[row] >= 0);
            for (const BlockTables& group : step.groups) {
                CHECK(group.slot(step.requests[row], step.own_place(group, row)) >= 0);
            }
        }
    }
    CHECK(refused > count / 4 && refused < count);
}

}  // namespace dayzero::tests
