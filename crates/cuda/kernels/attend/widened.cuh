// The layout of e4m3 keys and values that `attend_widen` widened to bf16: pages of their own, numbered without a table. A
// row's page offset is the number of its page zero, also where that page is not widened: it may be negative.
#pragma once
#include "params.cuh"

constexpr uint32_t kWidenedPage = 128;
