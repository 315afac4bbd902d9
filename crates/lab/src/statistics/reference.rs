//! Numbers of scipy and statsmodels (reference/make_statistics.py).

use serde_json::Value;

const NUMBERS: &str = include_str!("../../tests/data/statistics.json");

fn rows(name: &str) -> Vec<Value> {
    let numbers: Value = serde_json::from_str(NUMBERS).unwrap();
    numbers[name].as_array().unwrap().clone()
}

fn list(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(values) => values.iter().map(|value| value.as_f64().unwrap()).collect(),
        single => vec![single.as_f64().unwrap()],
    }
}

/// Rows of plain numbers.
pub(super) fn numbers(name: &str) -> Vec<Vec<f64>> {
    rows(name).iter().map(list).collect()
}

/// Rows of two samples and what was found.
pub(super) fn samples(name: &str) -> Vec<(Vec<f64>, Vec<f64>, Vec<f64>)> {
    rows(name)
        .iter()
        .map(|row| (list(&row[0]), list(&row[1]), list(&row[2])))
        .collect()
}
