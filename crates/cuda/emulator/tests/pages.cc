// Keys and values copied from slots to slots: what is copied, in every plane, and that nothing else is written.
#include "case.h"
#include "pages.cu"

namespace {

using emulator::Order;

struct Copy {
    uint32_t from;
    uint32_t to;
    uint32_t tokens;
};

// As launch/pages.rs lays out blocks.
void check(uint32_t width, const std::vector<Copy>& copies, Order order) {
    constexpr uint32_t kPlanes = 3, kSlots = 160;
    std::vector<uint8_t> memory(size_t(kPlanes) * kSlots * width);
    for (uint8_t& byte : memory) byte = random_numbers().words();
    std::vector<uint8_t> expected = memory;
    std::vector<uint32_t> from, to, tokens;
    for (const Copy& copy : copies) {
        from.push_back(copy.from), to.push_back(copy.to), tokens.push_back(copy.tokens);
        for (uint32_t plane = 0; plane < kPlanes; ++plane) {
            const uint8_t* slots = memory.data() + size_t(plane) * kSlots * width;
            std::copy_n(slots + copy.from * width, copy.tokens * width,
                        expected.begin() + (size_t(plane) * kSlots + copy.to) * width);
        }
    }
    const bool vectors = width % 16 == 0 && reinterpret_cast<uintptr_t>(memory.data()) % 16 == 0;
    const CopyPagesParams p{from.data(), to.data(), tokens.data(), memory.data(), kSlots, width, kPlanes, vectors};
    emulator::launch({uint32_t(copies.size()) * kPlanes * kSharers, 256, 0, order}, [&] { copy_pages(p); });
    report(words("%zu copies of slots of %u bytes%s", copies.size(), width, vectors ? ", by vectors" : ""), memory == expected,
           "byte by byte");
}

}  // namespace

int main() {
    for (Order order : {Order::kForward, Order::kBackward, Order::kShuffled}) {
        check(512, {{64, 0, 63}}, order);
        check(16, {{0, 64, 16}, {0, 130, 1}, {96, 32, 31}}, order);
        check(10, {{64, 0, 63}, {64, 128, 5}}, order);
        check(6, {{150, 3, 0}}, order);
    }
}
