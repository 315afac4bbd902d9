//! Every op has a conformance case and a kernel on each device, or a reason why not.

use super::finding::Finding;
use super::rust_text::{code_only, identifiers};
use super::tree::Tree;

const OPS: &str = "crates/ops/src/op/";
const TRAIT: &str = "crates/ops/src/lib.rs";
const CASES: &str = "crates/ops/src/conformance/";

/// A device's crate, and the ops it leaves to their default with the reason.
struct Device {
    folder: &'static str,
    without: &'static [(&'static str, &'static str)],
}

const DEVICES: &[Device] = &[
    Device {
        folder: "crates/cpu/src/",
        without: &[],
    },
    Device {
        folder: "crates/cuda/src/",
        without: &[],
    },
];

/// Ops of the trait that lack something, files of ops that hold none, and reasons that no longer hold.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(declared) = tree.get(TRAIT) else {
        return vec![Finding::file(TRAIT, "is missing")];
    };
    let ops = ops(&declared.text);
    let mut findings = Vec::new();
    if ops.is_empty() {
        findings.push(Finding::file(TRAIT, "declares no op in `trait Kernels`"));
    }
    for (method, op) in &ops {
        if !mentions(tree, CASES, method) && !mentions(tree, CASES, op) {
            findings.push(Finding::file(CASES, format!("has no case for {method}")));
        }
    }
    let kernels = DEVICES.iter().map(|device| kernels(tree, &ops, device));
    findings.extend(kernels.flatten());
    for file in tree.under(OPS).filter(|file| file.is_rust()) {
        let code = code_only(&file.text);
        let mut types = declarations(&code, "struct");
        let holds_an_op = types.any(|name| ops.iter().any(|(_, op)| op == name));
        if !holds_an_op && !file.path.ends_with("/mod.rs") {
            let what = "holds no op of `trait Kernels`";
            findings.push(Finding::file(&file.path, what));
        }
    }
    findings
}

/// Methods of `trait Kernels` with the types of their ops.
fn ops(source: &str) -> Vec<(String, String)> {
    let code = code_only(source);
    let body = body_after(&code, "trait Kernels").unwrap_or_default();
    let methods = body.split("fn ").skip(1).filter_map(|method| {
        let (name, rest) = method.split_once("(&self, op: ")?;
        let (op, _) = rest.split_once('<')?;
        Some((name.to_owned(), op.to_owned()))
    });
    methods.collect()
}

/// Ops that a device does not implement, and reasons for ops that it does or that do not exist.
fn kernels(tree: &Tree, ops: &[(String, String)], device: &Device) -> Vec<Finding> {
    let codes: Vec<String> = tree
        .under(device.folder)
        .filter(|file| file.is_rust())
        .map(|file| code_only(&file.text))
        .collect();
    let bodies = codes.iter();
    let bodies = bodies.filter_map(|code| body_after(code, "impl Kernels for"));
    let implemented: Vec<&str> = bodies
        .flat_map(|body| identifiers(body).map(|(_, name)| name))
        .collect();
    let has = |op: &str| implemented.contains(&op);
    let excused = |op: &str| device.without.iter().any(|(name, _)| *name == op);
    let lacking = ops.iter().filter(|(op, _)| !has(op) && !excused(op));
    let mut findings: Vec<Finding> = lacking
        .map(|(op, _)| Finding::file(device.folder, format!("has no kernel for {op}")))
        .collect();
    let known = |op: &str| ops.iter().any(|(method, _)| method == op);
    let stale = device.without.iter();
    let stale = stale.filter(|(op, _)| has(op) || !known(op));
    findings.extend(stale.map(|(op, reason)| {
        let what = format!("the reason for {op} no longer holds: {reason}");
        Finding::file(device.folder, what)
    }));
    findings
}

/// What stands between the braces that follow `head`.
fn body_after<'a>(code: &'a str, head: &str) -> Option<&'a str> {
    let (_, rest) = code.split_once(head)?;
    let (_, rest) = rest.split_once('{')?;
    let mut depth = 1;
    let end = rest.find(|c| {
        depth += match c {
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        depth == 0
    })?;
    Some(&rest[..end])
}

fn mentions(tree: &Tree, folder: &str, name: &str) -> bool {
    let mut files = tree.under(folder).filter(|file| file.is_rust());
    files.any(|file| identifiers(&code_only(&file.text)).any(|(_, word)| word == name))
}

/// Names declared with this keyword.
fn declarations<'a>(code: &'a str, keyword: &'a str) -> impl Iterator<Item = &'a str> {
    let mut before = "";
    identifiers(code).filter_map(move |(_, word)| {
        let declared = before == keyword;
        before = word;
        declared.then_some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture;

    const KERNELS: &str = "pub trait Kernels {\n    /// See [`Embed`].\n    fn embed(&self, op: Embed<'_>) -> R;\n    \
        fn linear(&self, op: Linear<'_>) -> R {\n        x\n    }\n}\nfn other(&self, op: Other<'_>) {}\n";

    #[test]
    fn ops_are_read_from_the_trait() {
        let found = ops(KERNELS);
        let expected = [("embed", "Embed"), ("linear", "Linear")];
        let expected = expected.map(|(method, op)| (method.to_owned(), op.to_owned()));
        assert_eq!(found, expected);
    }

    #[test]
    fn an_op_without_a_case_or_a_kernel_is_found() {
        let (_folder, tree) = fixture::tree(&[
            (TRAIT, KERNELS),
            ("crates/ops/src/op/embed.rs", "pub struct Embed<'a>;"),
            ("crates/ops/src/op/stray.rs", "pub struct Stray;"),
            (
                "crates/ops/src/conformance/cases.rs",
                "use Embed; // linear",
            ),
            (
                "crates/cpu/src/kernels.rs",
                "fn linear() {}\nimpl Kernels for Cpu { forward!(embed: Embed => embed); }",
            ),
            (
                "crates/cuda/src/device.rs",
                "impl Kernels for Cuda { fn linear() {} fn embed() {} }",
            ),
        ]);
        assert_eq!(
            fixture::shown(&check(&tree)),
            [
                "crates/ops/src/conformance/: has no case for linear",
                "crates/cpu/src/: has no kernel for linear",
                "crates/ops/src/op/stray.rs: holds no op of `trait Kernels`",
            ]
        );
    }

    #[test]
    fn a_reason_counts_until_the_kernel_is_there() {
        let device = Device {
            folder: "crates/new/src/",
            without: &[
                ("embed", "not yet"),
                ("linear", "not yet"),
                ("gone", "was slow"),
            ],
        };
        let source = "impl Kernels for New { fn embed() {} }";
        let (_folder, tree) = fixture::tree(&[("crates/new/src/device.rs", source)]);
        assert_eq!(
            fixture::shown(&kernels(&tree, &ops(KERNELS), &device)),
            [
                "crates/new/src/: the reason for embed no longer holds: not yet",
                "crates/new/src/: the reason for gone no longer holds: was slow",
            ]
        );
    }
}
