//! Every op has a conformance case and a kernel on each device, or a reason why not.

use super::finding::Finding;
use super::rust_text::{code_only, identifiers};
use super::tree::Tree;

const OPS: &str = "crates/ops/src/op/";
const TRAIT: &str = "crates/ops/src/lib.rs";
const CASES: &str = "crates/ops/src/conformance/";
const CPU: &str = "crates/cpu/src/";
const CUDA: &str = "crates/cuda/src/";

const COMPOSED: &str = "composed of rope and store_kv";
const NOT_ON_CPU: &[(&str, &str)] = &[];

/// The CUDA device does not exist yet; its kernels leave this table one by one.
const NO_CUDA: &str = "the crate has no device yet";
const NOT_ON_CUDA: &[(&str, &str)] = &[
    ("resolve_tokens", NO_CUDA),
    ("update_pages", NO_CUDA),
    ("count_tokens", NO_CUDA),
    ("embed", NO_CUDA),
    ("linear", NO_CUDA),
    ("rms_norm", NO_CUDA),
    ("add_rms_norm", NO_CUDA),
    ("rope", NO_CUDA),
    ("store_kv", NO_CUDA),
    ("rope_store_kv", COMPOSED),
    ("attend", NO_CUDA),
    ("gated_activation", NO_CUDA),
    ("gather_rows", NO_CUDA),
    ("edit_logits", NO_CUDA),
    ("penalise", NO_CUDA),
    ("sample", NO_CUDA),
    ("log_probs", NO_CUDA),
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
    findings.extend(kernels(tree, &ops, CPU, NOT_ON_CPU));
    findings.extend(kernels(tree, &ops, CUDA, NOT_ON_CUDA));
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
    let Some(at) = code.find("trait Kernels") else {
        return Vec::new();
    };
    let methods = code[at..].split("fn ").skip(1).filter_map(|method| {
        let (name, rest) = method.split_once("(&self, op: ")?;
        let (op, _) = rest.split_once('<')?;
        Some((name.to_owned(), op.to_owned()))
    });
    methods.collect()
}

/// Ops without a kernel in a device's crate, and reasons for ops that have one or do not exist.
fn kernels(
    tree: &Tree,
    ops: &[(String, String)],
    device: &str,
    reasons: &[(&str, &str)],
) -> Vec<Finding> {
    let codes: Vec<String> = tree
        .under(device)
        .filter(|file| file.is_rust())
        .map(|file| code_only(&file.text))
        .collect();
    let has_kernel = |op: &str| {
        let mut functions = codes.iter().flat_map(|code| declarations(code, "fn"));
        functions.any(|name| name == op)
    };
    let lacking = ops.iter().filter(|(method, _)| {
        let excused = reasons.iter().any(|(op, _)| op == method);
        !excused && !has_kernel(method)
    });
    let mut findings: Vec<Finding> = lacking
        .map(|(method, _)| Finding::file(device, format!("has no kernel for {method}")))
        .collect();
    let stale = reasons.iter().filter(|(op, _)| {
        let known = ops.iter().any(|(method, _)| method == op);
        has_kernel(op) || !known && !ops.is_empty()
    });
    findings.extend(stale.map(|(op, reason)| {
        let what = format!("the reason for {op} no longer holds: {reason}");
        Finding::file(device, what)
    }));
    findings
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
        fn linear(&self, op: Linear<'_>) -> R;\n    fn rope_store_kv(&self, op: RopeStoreKv<'_>) -> R;\n}\n";

    #[test]
    fn ops_are_read_from_the_trait() {
        let found = ops(KERNELS);
        let methods: Vec<&str> = found.iter().map(|(method, _)| method.as_str()).collect();
        assert_eq!(methods, ["embed", "linear", "rope_store_kv"]);
        assert_eq!(found[2].1, "RopeStoreKv");
    }

    #[test]
    fn an_op_without_a_case_or_a_kernel_is_found() {
        let (_folder, tree) = fixture::tree(&[
            (TRAIT, KERNELS),
            ("crates/ops/src/op/embed.rs", "pub struct Embed<'a>;"),
            ("crates/ops/src/op/stray.rs", "pub struct Stray;"),
            (
                "crates/ops/src/conformance/cases.rs",
                "use Embed; // linear\nRopeStoreKv {}",
            ),
            (
                "crates/cpu/src/kernels/all.rs",
                "fn embed() {}\nfn rope_store_kv() {}",
            ),
        ]);
        let reasons: Vec<String> = fixture::shown(&check(&tree))
            .into_iter()
            .filter(|finding| !finding.contains("no longer holds"))
            .collect();
        assert_eq!(
            reasons,
            [
                "crates/ops/src/conformance/: has no case for linear",
                "crates/cpu/src/: has no kernel for linear",
                "crates/ops/src/op/stray.rs: holds no op of `trait Kernels`",
            ]
        );
    }

    #[test]
    fn a_reason_for_an_op_that_has_its_kernel_is_found() {
        let (_folder, tree) = fixture::tree(&[
            (TRAIT, KERNELS),
            ("crates/cuda/src/launch/embed.rs", "fn embed() {}"),
        ]);
        let shown = fixture::shown(&check(&tree));
        let stale =
            "crates/cuda/src/: the reason for embed no longer holds: the crate has no device yet";
        assert!(shown.contains(&stale.to_owned()), "{shown:?}");
    }
}
