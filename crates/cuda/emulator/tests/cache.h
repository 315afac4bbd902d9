// Keys and values that kernels read and write by slots.
#pragma once
#include "case.h"

// Keys or values of all pages, as bf16 or e4m3; unwritten elements are NaN.
struct Cache {
    int rows;
    int columns;
    int element;
    std::vector<uint8_t> bytes;

    Cache(int row_count, int column_count, bool narrow)
        : rows(row_count), columns(column_count), element(narrow ? 1 : 2), bytes(size_t(rows) * columns * element, 0x7f) {
        if (narrow) return;
        for (int row = 0; row < rows; ++row) {
            for (int i = 0; i < columns; ++i) set(row, i, NAN);
        }
    }

    float at(int row, int column) const {
        const uint8_t* from = &bytes[(size_t(row) * columns + column) * element];
        return element == 1 ? number_of(*from) : __bfloat162float(*reinterpret_cast<const __nv_bfloat16*>(from));
    }

    void set(int row, int column, double value) {
        uint8_t* to = &bytes[(size_t(row) * columns + column) * element];
        if (element == 1) {
            *to = __nv_fp8_e4m3(float(value)).__x;
        } else {
            *reinterpret_cast<__nv_bfloat16*>(to) = __double2bfloat16(value);
        }
    }

    bool operator==(const Cache& other) const { return bytes == other.bytes; }
};
