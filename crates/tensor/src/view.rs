use std::marker::PhantomData;
use std::ops::Range;

use half::{bf16, f16};

use crate::{DType, Element, Place, float8};

#[derive(Clone, Copy, Debug)]
struct Matrix {
    address: *mut u8,
    rows: usize,
    cols: usize,
    stride: usize,
    dtype: DType,
    place: Place,
}

impl Matrix {
    fn at(self, row: usize, col: usize) -> *mut u8 {
        // Wrapping, because addresses of dry runs point nowhere.
        self.address
            .wrapping_add((row * self.stride + col) * self.dtype.size())
    }

    fn columns(self, range: &Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= self.cols,
            "columns {range:?} of {}",
            self.cols
        );
        Self {
            address: self.at(0, range.start),
            cols: range.len(),
            ..self
        }
    }

    fn row_range(self, range: &Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= self.rows,
            "rows {range:?} of {}",
            self.rows
        );
        Self {
            address: self.at(range.start, 0),
            rows: range.len(),
            ..self
        }
    }

    fn host_row<T: Element>(self, row: usize) -> *mut T {
        assert_eq!(
            self.place,
            Place::Host,
            "only host memory can be read by the host"
        );
        assert_eq!(self.dtype, T::DTYPE, "the view holds another element type");
        assert!(row < self.rows, "row {row} of {}", self.rows);
        self.at(row, 0).cast()
    }
}

macro_rules! shape_methods {
    () => {
        /// Number of rows.
        pub fn rows(&self) -> usize {
            self.matrix.rows
        }
        /// Elements in a row.
        pub fn cols(&self) -> usize {
            self.matrix.cols
        }
        /// Elements from the start of a row to the start of the next.
        pub fn stride(&self) -> usize {
            self.matrix.stride
        }
        /// Type of the elements.
        pub fn dtype(&self) -> DType {
            self.matrix.dtype
        }
        /// Who can read it.
        pub fn place(&self) -> Place {
            self.matrix.place
        }
        /// True when the rows follow each other without gaps.
        pub fn is_contiguous(&self) -> bool {
            self.matrix.stride == self.matrix.cols || self.matrix.rows <= 1
        }
        /// One row of host memory.
        pub fn row<T: Element>(&self, row: usize) -> &[T] {
            // SAFETY: in bounds and of this type (checked), borrowed from self.
            unsafe { std::slice::from_raw_parts(self.matrix.host_row(row), self.matrix.cols) }
        }
        /// All elements of contiguous host memory.
        pub fn elements<T: Element>(&self) -> &[T] {
            assert!(self.is_contiguous(), "a strided view is not one slice");
            let len = self.matrix.rows * self.matrix.cols;
            if len == 0 {
                return &[];
            }
            // SAFETY: contiguous, in bounds and of this type (checked), borrowed from self.
            unsafe { std::slice::from_raw_parts(self.matrix.host_row(0), len) }
        }
        /// One row as bytes of host memory, whatever its type.
        pub fn row_bytes(&self, row: usize) -> &[u8] {
            assert_eq!(
                self.matrix.place,
                Place::Host,
                "only host memory can be read by the host"
            );
            assert!(row < self.matrix.rows, "row {row} of {}", self.matrix.rows);
            let bytes = self.matrix.cols * self.matrix.dtype.size();
            // SAFETY: in bounds (checked), borrowed from self.
            unsafe { std::slice::from_raw_parts(self.matrix.at(row, 0), bytes) }
        }
        /// One element of host memory as a number, whatever float or integer type it has.
        pub fn value(&self, row: usize, col: usize) -> f32 {
            match self.matrix.dtype {
                DType::F32 => self.row::<f32>(row)[col],
                DType::F16 => self.row::<f16>(row)[col].to_f32(),
                DType::BF16 => self.row::<bf16>(row)[col].to_f32(),
                DType::F8E4M3 => float8::decode(self.row_bytes(row)[col]),
                DType::U32 => self.row::<u32>(row)[col] as f32,
                DType::I32 => self.row::<i32>(row)[col] as f32,
                other => panic!("{other} has no plain value"),
            }
        }
    };
}

/// A matrix that may be read.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    matrix: Matrix,
    borrow: PhantomData<&'a [u8]>,
}

/// A matrix that may be written, by its holder alone.
#[derive(Debug)]
pub struct ViewMut<'a> {
    matrix: Matrix,
    borrow: PhantomData<&'a mut [u8]>,
}

// SAFETY: like &[u8].
unsafe impl Send for View<'_> {}
// SAFETY: like &[u8].
unsafe impl Sync for View<'_> {}
// SAFETY: like &mut [u8].
unsafe impl Send for ViewMut<'_> {}
// SAFETY: like &mut [u8].
unsafe impl Sync for ViewMut<'_> {}

impl<'a> View<'a> {
    shape_methods!();

    /// Reads raw memory as a matrix.
    ///
    /// # Safety
    /// The memory must be valid at `place`, and not written, for the lifetime `'a`.
    pub unsafe fn from_raw(
        address: *const u8,
        rows: usize,
        cols: usize,
        stride: usize,
        dtype: DType,
        place: Place,
    ) -> Self {
        Self {
            matrix: Matrix {
                address: address.cast_mut(),
                rows,
                cols,
                stride,
                dtype,
                place,
            },
            borrow: PhantomData,
        }
    }

    /// Reads a slice of host memory as one row.
    pub fn of<T: Element>(slice: &'a [T]) -> Self {
        Self::of_matrix(slice, 1, slice.len())
    }

    /// Reads a slice of host memory as a matrix.
    pub fn of_matrix<T: Element>(slice: &'a [T], rows: usize, cols: usize) -> Self {
        assert_eq!(
            slice.len(),
            rows * cols,
            "the slice does not have this shape"
        );
        // SAFETY: the slice is borrowed for 'a.
        unsafe {
            Self::from_raw(
                slice.as_ptr().cast(),
                rows,
                cols,
                cols,
                T::DTYPE,
                Place::Host,
            )
        }
    }

    /// The first address.
    pub fn address(&self) -> *const u8 {
        self.matrix.address
    }

    /// Some columns of every row.
    pub fn columns(self, range: Range<usize>) -> Self {
        Self {
            matrix: self.matrix.columns(&range),
            ..self
        }
    }

    /// Some rows.
    pub fn row_range(self, range: Range<usize>) -> Self {
        Self {
            matrix: self.matrix.row_range(&range),
            ..self
        }
    }

    /// The same bytes read as elements of another type: the row is `cols` elements of `dtype` from byte `offset` on.
    pub fn cast(self, offset: usize, rows: usize, cols: usize, dtype: DType) -> Self {
        assert!(
            self.is_contiguous(),
            "only contiguous bytes can be read as another type"
        );
        let bytes = self.matrix.rows * self.matrix.cols * self.matrix.dtype.size();
        let end = offset + rows * cols * dtype.size();
        assert!(end <= bytes, "{end} bytes of a view of {bytes}");
        let address = self.matrix.address.wrapping_add(offset);
        Self {
            matrix: Matrix {
                address,
                rows,
                cols,
                stride: cols,
                dtype,
                place: self.matrix.place,
            },
            ..self
        }
    }

    /// All elements of contiguous host memory, for as long as the memory is borrowed.
    pub fn into_slice<T: Element>(self) -> &'a [T] {
        let slice: &[T] = self.elements();
        // SAFETY: the memory is borrowed for 'a, not only for this view.
        unsafe { std::slice::from_raw_parts(slice.as_ptr(), slice.len()) }
    }
}

impl<'a> ViewMut<'a> {
    shape_methods!();

    /// Writes raw memory as a matrix.
    ///
    /// # Safety
    /// The memory must be valid at `place`, and used by nobody else, for the lifetime `'a`.
    pub unsafe fn from_raw(
        address: *mut u8,
        rows: usize,
        cols: usize,
        stride: usize,
        dtype: DType,
        place: Place,
    ) -> Self {
        Self {
            matrix: Matrix {
                address,
                rows,
                cols,
                stride,
                dtype,
                place,
            },
            borrow: PhantomData,
        }
    }

    /// Writes a slice of host memory as one row.
    pub fn of<T: Element>(slice: &'a mut [T]) -> Self {
        let cols = slice.len();
        Self::of_matrix(slice, 1, cols)
    }

    /// Writes a slice of host memory as a matrix.
    pub fn of_matrix<T: Element>(slice: &'a mut [T], rows: usize, cols: usize) -> Self {
        assert_eq!(
            slice.len(),
            rows * cols,
            "the slice does not have this shape"
        );
        // SAFETY: the slice is borrowed mutably for 'a.
        unsafe {
            Self::from_raw(
                slice.as_mut_ptr().cast(),
                rows,
                cols,
                cols,
                T::DTYPE,
                Place::Host,
            )
        }
    }

    /// The first address.
    pub fn address(&self) -> *mut u8 {
        self.matrix.address
    }

    /// The same matrix for a shorter time.
    pub fn reborrow(&mut self) -> ViewMut<'_> {
        ViewMut {
            matrix: self.matrix,
            borrow: PhantomData,
        }
    }

    /// The matrix to read, while this borrow lasts.
    pub fn view(&self) -> View<'_> {
        View {
            matrix: self.matrix,
            borrow: PhantomData,
        }
    }

    /// Gives up writing for good.
    pub fn into_view(self) -> View<'a> {
        View {
            matrix: self.matrix,
            borrow: PhantomData,
        }
    }

    /// Some columns of every row.
    pub fn columns(self, range: Range<usize>) -> Self {
        Self {
            matrix: self.matrix.columns(&range),
            ..self
        }
    }

    /// Some rows.
    pub fn row_range(self, range: Range<usize>) -> Self {
        Self {
            matrix: self.matrix.row_range(&range),
            ..self
        }
    }

    /// Two column ranges that do not overlap: `..at` and `at..`.
    pub fn split_columns(self, at: usize) -> (Self, Self) {
        let right = self.matrix.columns(&(at..self.matrix.cols));
        let left = self.matrix.columns(&(0..at));
        (
            Self {
                matrix: left,
                borrow: PhantomData,
            },
            Self {
                matrix: right,
                borrow: PhantomData,
            },
        )
    }

    /// Two row ranges that do not overlap: `..at` and `at..`.
    pub fn split_rows(self, at: usize) -> (Self, Self) {
        let lower = self.matrix.row_range(&(at..self.matrix.rows));
        let upper = self.matrix.row_range(&(0..at));
        (
            Self {
                matrix: upper,
                borrow: PhantomData,
            },
            Self {
                matrix: lower,
                borrow: PhantomData,
            },
        )
    }

    /// One row of host memory, to write.
    pub fn row_mut<T: Element>(&mut self, row: usize) -> &mut [T] {
        // SAFETY: in bounds and of this type (checked), borrowed mutably from self.
        unsafe { std::slice::from_raw_parts_mut(self.matrix.host_row(row), self.matrix.cols) }
    }

    /// Rounds a number into one element of host memory.
    pub fn set(&mut self, row: usize, col: usize, value: f32) {
        match self.matrix.dtype {
            DType::F32 => self.row_mut::<f32>(row)[col] = value,
            DType::F16 => self.row_mut::<f16>(row)[col] = f16::from_f32(value),
            DType::BF16 => self.row_mut::<bf16>(row)[col] = bf16::from_f32(value),
            DType::F8E4M3 => self.row_bytes_mut(row)[col] = float8::encode(value),
            other => panic!("{other} has no plain value"),
        }
    }

    /// All elements of contiguous host memory, to write, for as long as the memory is borrowed.
    pub fn into_slice<T: Element>(self) -> &'a mut [T] {
        let len = self.elements::<T>().len();
        // SAFETY: contiguous and of this type (checked), borrowed mutably for 'a and given up by self.
        unsafe { std::slice::from_raw_parts_mut(self.matrix.address.cast(), len) }
    }

    /// One row as bytes of host memory, to write, whatever its type.
    pub fn row_bytes_mut(&mut self, row: usize) -> &mut [u8] {
        assert_eq!(
            self.matrix.place,
            Place::Host,
            "only host memory can be written by the host"
        );
        assert!(row < self.matrix.rows, "row {row} of {}", self.matrix.rows);
        let bytes = self.matrix.cols * self.matrix.dtype.size();
        // SAFETY: in bounds (checked), borrowed mutably from self.
        unsafe { std::slice::from_raw_parts_mut(self.matrix.at(row, 0), bytes) }
    }
}
