//! Runs a list of launches, and keeps in mind in what form each left its rows.

use ops::op::{AddRmsNorm, Linear};
use ops::program::{Binder, Op, Val, WeightId};
use ops::{Lowered, OpError, Recorded, Step, Weight, Weights};
use tensor::DType;

use super::{
    DeferredScale, GatedGemm, GemmAddNorm, GemmArgmax, GemmInput, Launch, LaunchList, RopeAttend,
    RowForm,
};
use crate::device::CudaDevice;

/// Forms of values that are not plain.
struct Forms(Vec<Option<Form>>);

#[derive(Clone, Copy)]
enum Form {
    Deferred { squares: usize, eps: f32 },
    Codes,
}

/// A list while it runs.
struct Running<'a> {
    device: &'a CudaDevice,
    list: &'a Lowered,
    weights: &'a Weights,
    binder: Binder<'a>,
    forms: Forms,
}

impl CudaDevice {
    /// Enqueues a step of a class that was lowered.
    pub(crate) fn run_list(
        &self,
        list: &Lowered,
        weights: &Weights,
        step: &Step<'_>,
    ) -> Result<(), OpError> {
        let launches = list
            .launches
            .as_ref()
            .and_then(|launches| launches.downcast_ref::<LaunchList>());
        let Some(LaunchList { launches }) = launches else {
            return list.interpret(self, weights, step);
        };
        let mut running = Running {
            device: self,
            list,
            weights,
            binder: list.binder(weights, step),
            forms: Forms(vec![None; list.program.values.len()]),
        };
        launches
            .iter()
            .try_for_each(|launch| running.launch(launch))
    }
}

impl<'a> Running<'a> {
    fn launch(&mut self, launch: &Launch) -> Result<(), OpError> {
        match *launch {
            Launch::Op(op) => self.op(op),
            Launch::GemmAddNorm {
                gemm,
                norm,
                ref readers,
                squares,
            } => self.gemm_add_norm((gemm, norm), readers, squares),
            Launch::GatedGemm {
                gemm,
                activation,
                ref readers,
            } => self.gated_gemm((gemm, activation), readers),
            Launch::GemmArgmax { gemm, argmax } => self.gemm_argmax(gemm, argmax),
            Launch::RopeAttend { store, attend } => self.rope_attend(store, attend),
        }
    }

    fn op(&mut self, op: usize) -> Result<(), OpError> {
        let op = &self.list.program.nodes[op].op;
        let Op::Linear(gemm) = op else {
            return self.binder.run(self.device, op);
        };
        let (device, input) = (self.device, self.input(gemm));
        self.binder
            .each_part(gemm, |part| device.multiply(input, part))
    }

    fn gemm_add_norm(
        &mut self,
        (gemm, norm): (usize, usize),
        readers: &[WeightId],
        squares: usize,
    ) -> Result<(), OpError> {
        let (linear, add) = (self.linear(gemm), self.norm(norm));
        if !self.is_whole(linear) {
            self.op(gemm)?;
            return self.op(norm);
        }
        let readers = self.all_parts(readers);
        let bound = add.bind(&self.binder);
        let (rows, cols) = (bound.out.rows(), bound.out.cols());
        let parts = cols.div_ceil(DeferredScale::PART);
        let form = self.device.run_gemm_add_norm(GemmAddNorm {
            gemm: linear.bind(&self.binder),
            input: self.input(linear),
            residual: bound.residual,
            weight: bound.weight,
            eps: bound.eps,
            out: bound.out,
            squares: self.binder.extra(squares, (rows, parts), DType::F32),
            readers: &readers,
        })?;
        let eps = add.eps;
        self.forms
            .set(add.out, form, Form::Deferred { squares, eps });
        Ok(())
    }

    fn gated_gemm(
        &mut self,
        (gemm, activation): (usize, usize),
        readers: &[WeightId],
    ) -> Result<(), OpError> {
        let linear = self.linear(gemm);
        let Op::GatedActivation(gates) = &self.list.program.nodes[activation].op else {
            unreachable!("the place of an activation")
        };
        if !self.is_whole(linear) {
            self.op(gemm)?;
            return self.op(activation);
        }
        let readers = self.all_parts(readers);
        let form = self.device.run_gated_gemm(GatedGemm {
            gemm: linear.bind(&self.binder),
            input: self.input(linear),
            activation: gates.activation,
            out: gates.bind(&self.binder).out,
            readers: &readers,
        })?;
        self.forms.set(gates.out, form, Form::Codes);
        Ok(())
    }

    fn gemm_argmax(&mut self, gemm: usize, argmax: usize) -> Result<(), OpError> {
        let linear = self.linear(gemm);
        let Op::Sample(sample) = &self.list.program.nodes[argmax].op else {
            unreachable!("the place of an argmax")
        };
        if !self.is_whole(linear) {
            self.op(gemm)?;
            return self.op(argmax);
        }
        self.device.run_gemm_argmax(GemmArgmax {
            gemm: linear.bind(&self.binder),
            input: self.input(linear),
            draw: sample.bind(&self.binder).draw,
        })
    }

    fn rope_attend(&mut self, store: usize, attend: usize) -> Result<(), OpError> {
        let nodes = &self.list.program.nodes;
        let (Op::RopeStoreKv(rope), Op::Attend(attend)) = (&nodes[store].op, &nodes[attend].op)
        else {
            unreachable!("the places of both")
        };
        let bound = attend.bind(&self.binder);
        self.device.launch_rope_attend(RopeAttend {
            rope: rope.bind(&self.binder),
            batch: bound.batch,
            scale: bound.scale,
            window: bound.window,
            soft_cap: bound.soft_cap,
            sinks: bound.sinks,
            out: bound.out,
        })
    }

    fn linear(&self, gemm: usize) -> &'a Linear<Recorded> {
        match &self.list.program.nodes[gemm].op {
            Op::Linear(linear) => linear,
            _ => unreachable!("the place of a GEMM"),
        }
    }

    fn norm(&self, norm: usize) -> &'a AddRmsNorm<Recorded> {
        match &self.list.program.nodes[norm].op {
            Op::AddRmsNorm(norm) => norm,
            _ => unreachable!("the place of a norm"),
        }
    }

    /// True when the file does not mix formats in this weight.
    fn is_whole(&self, gemm: &Linear<Recorded>) -> bool {
        self.weights.matrix(gemm.weight).len() == 1
    }

    fn all_parts(&self, weights: &[WeightId]) -> Vec<&'a Weight> {
        let parts = weights.iter().map(|&weight| self.weights.matrix(weight));
        parts.flatten().collect()
    }

    /// What the rows are that a GEMM reads.
    fn input(&self, gemm: &Linear<Recorded>) -> GemmInput<'a> {
        let value = gemm.x.value;
        match self.forms.0[value.index()] {
            None => GemmInput::Plain,
            Some(Form::Codes) => GemmInput::Codes,
            Some(Form::Deferred { squares, eps }) => {
                let rows = self.binder.read(value.into());
                let parts = rows.cols().div_ceil(DeferredScale::PART);
                let squares = self.binder.extra(squares, (rows.rows(), parts), DType::F32);
                GemmInput::Deferred(DeferredScale {
                    squares: squares.into_view(),
                    width: rows.cols(),
                    eps,
                })
            }
        }
    }
}

impl Forms {
    fn set(&mut self, value: Val, left: RowForm, deferred: Form) {
        self.0[value.index()] = match left {
            RowForm::Plain => None,
            RowForm::Deferred => Some(deferred),
            RowForm::Codes => Some(Form::Codes),
        };
    }
}
