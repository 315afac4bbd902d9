// Where keys and values of one byte lie once `attend_widen` has made them bf16: in pages of their own, numbered without a
// table. A row's home is the number that its page zero has, or would have if it were there: it may be less than zero.
#pragma once
#include "params.cuh"

constexpr uint32_t kWidenedPage = 128;
