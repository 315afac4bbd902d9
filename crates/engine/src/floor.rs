use scheduler::{RowInput, StepPlan};

/// What a generating step must read from memory, and how fast memory is: no step can be shorter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepFloor {
    /// Bytes of weights that every step reads.
    pub weights: usize,
    /// Bytes of keys and values of one token.
    pub token: usize,
    /// Bytes a second that the device reads at best.
    pub bandwidth: f64,
}

impl StepFloor {
    /// The shortest time of a step whose rows attend to so many tokens together, in seconds.
    pub fn seconds(&self, tokens: u64) -> f64 {
        (self.weights as f64 + tokens as f64 * self.token as f64) / self.bandwidth
    }
}

/// Tokens that the rows of a step attend to together; `None` when the step does more than generate.
pub(crate) fn attended(plan: &StepPlan) -> Option<u64> {
    let mut tokens = 0;
    for row in &plan.rows {
        if row.input != RowInput::LastSampled {
            return None;
        }
        tokens += u64::from(row.end());
    }
    (!plan.rows.is_empty()).then_some(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_is_the_time_to_read_the_weights_once_and_every_token() {
        let floor = StepFloor {
            weights: 16_000,
            token: 10,
            bandwidth: 1e6,
        };
        assert!((floor.seconds(0) - 0.016).abs() < 1e-12);
        assert!((floor.seconds(400) - 0.020).abs() < 1e-12);
    }
}
