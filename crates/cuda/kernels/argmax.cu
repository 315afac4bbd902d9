// Finishes the argmax of the LM head: tokens from the keys that its tiles left.
#include "common/order.cuh"
#include "common/ordered.cuh"

struct FinishArgmaxParams {
    // One key per row. Reset to zero, which the first tile expects.
    unsigned long long* largest;
    const uint32_t* table_rows;
    uint32_t* out;
    uint32_t* last;
    uint32_t rows;
};

// Rows without a logit above -inf (all NaN or -inf) draw token 0.
extern "C" __global__ void finish_argmax(const __grid_constant__ FinishArgmaxParams p) {
    const uint32_t row = blockIdx.x * blockDim.x + threadIdx.x;
    launch_dependent_grids();
    const uint32_t place = row < p.rows ? p.table_rows[row] : 0;
    wait_on_dependent_grids();
    if (row >= p.rows) return;
    const unsigned long long key = p.largest[row];
    const uint32_t token = key_number(key) <= ordered(-INFINITY) ? 0 : key_place(key);
    p.largest[row] = 0;
    p.out[row] = token;
    p.last[place] = token;
}
