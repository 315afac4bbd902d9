// Tokens with the largest logits, as tiles of the head's product agreed on them.
#include "common/order.cuh"
#include "common/ordered.cuh"

struct SettleParams {
    // One a row; left as they are found before the first tile comes: zero.
    unsigned long long* largest;
    const uint32_t* table_rows;
    uint32_t* out;
    uint32_t* last;
    uint32_t rows;
};

// Rows of which no logit is a number above minus infinity draw token 0.
extern "C" __global__ void settle_largest(const __grid_constant__ SettleParams p) {
    const uint32_t row = blockIdx.x * blockDim.x + threadIdx.x;
    let_successor_begin();
    const uint32_t place = row < p.rows ? p.table_rows[row] : 0;
    wait_for_predecessor();
    if (row >= p.rows) return;
    const unsigned long long key = p.largest[row];
    const uint32_t token = key_number(key) <= ordered(-INFINITY) ? 0 : key_place(key);
    p.largest[row] = 0;
    p.out[row] = token;
    p.last[place] = token;
}
