use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use checkpoint::WeightSource;
use ops::{Float8Rows, RowsError, WeightFormat, WeightRows};
use tensor::DType;

use crate::LoadError;
use crate::stack::{Part, Stack, check_rows};

/// A stack whose rows are read, checked and brought into their format where a device wants them.
pub(crate) struct Streamed<'a> {
    source: &'a dyn WeightSource,
    stack: &'a Stack<'a>,
    form: Form,
    /// When the last rows were written.
    written: Mutex<Instant>,
}

/// What becomes of rows.
enum Form {
    /// Elements of this type, or codes with the scales of files.
    As(DType, Option<Float8Rows<'static>>),
    /// Codes with the scale of each row, known when the row has been seen.
    Rounded(Mutex<Vec<f32>>),
}

impl<'a> Streamed<'a> {
    /// None for formats that only come whole.
    pub(crate) fn new(source: &'a dyn WeightSource, stack: &'a Stack<'a>) -> Option<Self> {
        let form = match (stack.format, stack.grid()) {
            (WeightFormat::Affine { .. }, _) => return None,
            (WeightFormat::Plain(dtype), _) => Form::As(dtype, None),
            (WeightFormat::Float8 { .. }, Some(grid)) => Form::As(DType::F8E4M3, Some(grid)),
            (WeightFormat::Float8 { .. }, None) => {
                Form::Rounded(Mutex::new(vec![0.0; stack.rows()]))
            }
        };
        Some(Self {
            source,
            stack,
            form,
            written: Mutex::new(Instant::now()),
        })
    }

    /// When the last rows were written; nothing was read since.
    pub(crate) fn written(&self) -> Instant {
        *self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes rows of a part, the first of which is row `start` of the stack.
    fn write_part(
        &self,
        part: &Part<'_>,
        rows: Range<usize>,
        start: usize,
        out: &mut [u8],
    ) -> Result<(), LoadError> {
        if let Form::As(dtype, _) = self.form
            && part.is_stored_as(dtype)
        {
            let (tensor, width) = (part.stored.tensor, self.stack.cols() * dtype.size());
            self.source.read(tensor, rows.start * width, out)?;
            return check_rows(tensor, rows.start, out);
        }
        let places = out.chunks_exact_mut(out.len() / rows.len());
        let (mut bytes, mut found) = (Vec::new(), Vec::new());
        for (row, out) in rows.zip(places) {
            let row = part.read_row(self.source, row, &mut bytes)?;
            match &self.form {
                Form::As(dtype, _) => row.write(*dtype, out)?,
                Form::Rounded(_) => found.push(row.quantise(out)?),
            }
        }
        if let Form::Rounded(scales) = &self.form {
            let mut scales = scales.lock().unwrap_or_else(PoisonError::into_inner);
            scales[start..start + found.len()].copy_from_slice(&found);
        }
        Ok(())
    }
}

impl WeightRows for Streamed<'_> {
    fn shape(&self) -> (usize, usize) {
        (self.stack.rows(), self.stack.cols())
    }

    fn format(&self) -> WeightFormat {
        self.stack.format
    }

    fn write(&self, rows: Range<usize>, out: &mut [u8]) -> Result<(), RowsError> {
        let width = self.stack.format.bytes_of(self.stack.cols());
        let (mut first, mut out) = (0, out);
        for part in &self.stack.parts {
            let end = first + part.stored.tensor.shape[0];
            let wanted = rows.start.max(first)..rows.end.min(end);
            if !wanted.is_empty() {
                let (now, later) = out.split_at_mut(wanted.len() * width);
                let within = wanted.start - first..wanted.end - first;
                self.write_part(part, within, wanted.start, now)?;
                out = later;
            }
            first = end;
        }
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        *written = Instant::now();
        Ok(())
    }

    fn scales(&self) -> Float8Rows<'static> {
        match &self.form {
            Form::As(_, Some(grid)) => grid.clone(),
            Form::As(_, None) => unreachable!("plain numbers have no scales"),
            Form::Rounded(scales) => Float8Rows {
                codes: Vec::new().into(),
                block: [1, self.stack.cols()],
                scales: scales
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clone(),
            },
        }
    }
}
